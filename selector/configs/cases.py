"""Cases taken from models: the calls in ``ops.include[].sample_inputs_func`` and the modules in ``modules.include``.

Read from the YAML as plain values; nothing is built here, and nothing of a config is ever evaluated as Python.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from selector.configs.model import Precision
from selector.configs.rules import ReuseConfigs
from selector.configs.tree import Item, Suite, TestEntry
from selector.model import Mode

Kind = Literal["op", "module"]
MODEL_TAG = "model__"


@dataclass(frozen=True, slots=True)
class Case:
    """One call. ``args`` and ``kwargs`` are argument specs as in the config; ``precision`` is by dtype name.

    A module's ``constructor`` holds its own inputs; ``name`` is then where its class lies (``torch.nn.Linear``).
    ``models`` are the models that make this call, ``sources`` where it is written.
    """

    kind: Kind
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    constructor: dict[str, Any] | None
    mode: Mode
    reason: str
    models: tuple[str, ...]
    sources: tuple[str, ...]
    precision: dict[str, Precision]
    seed: int

    @property
    def key(self) -> str:
        """The normalised call: equal for the same call of two models, whatever order its keys were written in."""
        value = [self.kind, self.name, self.args, self.kwargs, self.constructor]
        return json.dumps(value, sort_keys=True, default=str)


def cases_of(configs: ReuseConfigs) -> list[Case]:
    """Every distinct call of the configs, in order of writing, merged by ``key``."""
    found: dict[str, Case] = {}
    for suite in configs.suites:
        for case in _of_suite(suite):
            first = found.get(case.key)
            if first is None:
                found[case.key] = case
                continue
            found[case.key] = replace(
                first,
                models=tuple(dict.fromkeys((*first.models, *case.models))),
                sources=tuple(dict.fromkeys((*first.sources, *case.sources))),
                # a call that must succeed for one model must succeed
                mode=case.mode if case.mode is Mode.MANDATORY_SUCCESS else first.mode,
            )
    return list(found.values())


def model_of(source: str) -> str:
    """A model's name when no tag says it: that of its config."""
    return re.sub(r"[-_](spyre|with-device-layout)$", "", posixpath.basename(source).rpartition(".")[0])


def _of_suite(suite: Suite) -> Iterator[Case]:
    precision = {item.name: item.precision for item in suite.globals.dtypes or () if item.precision is not None}
    for entry in (entry for file in suite.files for entry in file.tests):
        models = tuple(t.removeprefix(MODEL_TAG) for t in entry.tags if t.startswith(MODEL_TAG))
        for kind, items, supported in _kinds(entry, suite):
            for item in items:
                forced = any(known.force_xfail and known.name == item.name for known in supported or ())
                for call in item.inputs:
                    yield Case(
                        kind=kind,
                        name=item.module_path or item.name,
                        args=call.args,
                        kwargs=dict(call.kwargs),
                        constructor=_constructor(item) if kind == "module" else None,
                        mode=Mode.XFAIL if forced and entry.mode is Mode.MANDATORY_SUCCESS else entry.mode,
                        reason=entry.why.reason,
                        models=models or (model_of(suite.source),),
                        sources=(str(item.place),),
                        precision=precision,
                        seed=suite.globals.seed or 0,
                    )


def _kinds(entry: TestEntry, suite: Suite) -> Iterator[tuple[Kind, tuple[Item, ...], tuple[Item, ...] | None]]:
    yield "op", entry.ops.include, suite.globals.ops
    yield "module", entry.modules.include, suite.globals.modules


def _constructor(item: Item) -> dict[str, Any]:
    if item.constructor is None:
        return {}
    return {"args": list(item.constructor.args), "kwargs": dict(item.constructor.kwargs)}
