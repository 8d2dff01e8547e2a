"""Cases taken from models: the calls in ``ops.include[].sample_inputs_func`` and the modules in ``modules.include``.

Read from the YAML as plain values; nothing is built here, and nothing of a config is ever evaluated as Python.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from yaml.nodes import MappingNode, Node

from selector.configs.model import ConfigSource, Precision
from selector.configs.nodes import Document
from selector.configs.rules import ReuseConfigs
from selector.configs.tree import Item
from selector.errors import ConfigError
from selector.model import Mode

MODEL_TAG = "model__"


@dataclass(frozen=True, slots=True)
class Case:
    """One call. ``args`` and ``kwargs`` are argument specs as in the config; ``precision`` is by dtype name.

    A module's ``constructor`` holds its own inputs; ``name`` is then where its class lies (``torch.nn.Linear``).
    ``models`` are the models that make this call, ``sources`` where it is written.
    """

    kind: Literal["op", "module"]
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


def cases_of(sources: Sequence[ConfigSource], configs: ReuseConfigs) -> list[Case]:
    """Every distinct call of the given configs (loaded as ``configs``), in order of writing, merged by ``key``."""
    found: dict[str, Case] = {}
    for source in sources:
        for case in _of_source(source, configs):
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


def _of_source(source: ConfigSource, configs: ReuseConfigs) -> Iterator[Case]:
    doc = Document(source.name, source.text, compat=True)
    suite = next((s for s in configs.suites if s.source == source.name), None)
    if doc.root is None or suite is None:
        return
    precision = {item.name: item.precision for item in suite.globals.dtypes or () if item.precision is not None}
    seed = suite.globals.seed or 0
    for entry in _entries(doc.root):
        fields = dict(_pairs(entry))
        tags = [str(t.value) for t in fields["tags"].value] if "tags" in fields else []
        models = tuple(t.removeprefix(MODEL_TAG) for t in tags if t.startswith(MODEL_TAG)) or (model_of(source.name),)
        mode = Mode(fields["mode"].value) if "mode" in fields else Mode.MANDATORY_SUCCESS
        reason = str(fields["reason"].value) if "reason" in fields else ""
        edits = dict(_pairs(fields["edits"])) if "edits" in fields else {}
        for kind, key in (("op", "ops"), ("module", "modules")):
            include = dict(_pairs(edits[key])).get("include") if key in edits else None
            for item in include.value if include is not None else ():
                place = f"{source.name}:{doc.place(item)[0]}"
                value = doc.plain(item, "an item")
                if isinstance(value, dict):
                    for call in _op_calls(value) if kind == "op" else _module_calls(value):
                        mode_here = _forced(mode, suite.globals.ops, str(value.get("name")))
                        yield Case(**call, mode=mode_here, reason=reason, models=models, sources=(place,),
                                   precision=precision, seed=seed)  # fmt: skip
    errors = [p for p in doc.problems if p.level == "error"]
    if errors:
        first = errors[0]
        raise ConfigError(first.source, first.line, first.column, first.message, first.hint)


def _forced(mode: Mode, supported: tuple[Item, ...] | None, name: str) -> Mode:
    forced = any(item.force_xfail and item.name == name for item in supported or ())
    return Mode.XFAIL if forced and mode is Mode.MANDATORY_SUCCESS else mode


def _op_calls(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inputs = item.get("sample_inputs_func")
    for one in inputs if isinstance(inputs, list) else [inputs]:
        if isinstance(one, dict):
            # the older tool dropped kwargs that stand one level too high; the call was meant to have them
            kwargs = {**(item.get("kwargs") or {}), **(one.get("kwargs") or {})}
            args = tuple(one.get("args") or ())
            yield {"kind": "op", "name": str(item.get("name")), "args": args, "kwargs": kwargs, "constructor": None}


def _module_calls(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    forward = item.get("forward_inputs", item.get("sample_inputs_func"))
    name = str(item.get("module_path") or item.get("name"))
    for one in forward if isinstance(forward, list) else [forward]:
        if isinstance(one, dict):
            yield {
                "kind": "module",
                "name": name,
                "args": tuple(one.get("args") or ()),
                "kwargs": dict(one.get("kwargs") or {}),
                "constructor": dict(item.get("constructor_inputs") or {}),
            }


def _entries(root: Node) -> Iterator[MappingNode]:
    for suite in (v for k, v in _pairs(root) if k == "test_suite_config"):
        for files in (v for k, v in _pairs(suite) if k == "files"):
            for file in files.value:
                for tests in (v for k, v in _pairs(file) if k == "tests"):
                    yield from (entry for entry in tests.value if isinstance(entry, MappingNode))


def _pairs(node: Node) -> list[tuple[str, Node]]:
    return [(str(k.value), v) for k, v in node.value] if isinstance(node, MappingNode) else []
