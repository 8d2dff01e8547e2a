"""A fault gets into functions that exist already: plain ones, methods, what decorators made of them, closures."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from relay.worker.replay import patching
from selector.replay import mutate
from selector.replay.model import Fault

SOURCE = """
import functools


def twice(fn):
    @functools.wraps(fn)
    def inner(*args):
        return fn(*args) * 2
    return inner


def plain(a, b):
    if a > 1:
        return a + b
    return b


@twice
def decorated(a):
    return a + 3


def maker(step):
    def made(a):
        return a - step
    return made


KEPT = maker(1)


class Thing:
    def method(self, a):
        value = a
        value += 5
        return value
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, patching.Modules]:
    (tmp_path / "replay_sample").mkdir()
    (tmp_path / "replay_sample" / "__init__.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    sys.modules.pop("replay_sample", None)
    found = importlib.import_module("replay_sample")
    return found, patching.Modules(tmp_path, ["replay_sample/__init__.py"])


def faults(kind: str, symbol: str) -> list[Fault]:
    places = [place for place in mutate.places(SOURCE.encode()) if (place.kind, place.symbol) == (kind, symbol)]
    return [Fault(p.kind, "sample", "replay_sample/__init__.py", p.symbol, p.line, p.edit) for p in places]


def behaviour(module: Any) -> dict[str, Any]:
    return {
        "plain": module.plain(2, 3),
        "decorated": module.decorated(1),
        "kept": module.KEPT(10),
        "made": module.maker(2)(10),
        "method": module.Thing().method(1),
    }


@pytest.mark.parametrize(
    ("kind", "symbol", "changed"),
    [
        ("arithmetic-swap", "plain", {"plain": -1}),
        ("condition-negate", "plain", {"plain": 3}),
        ("arithmetic-swap", "decorated", {"decorated": -4}),
        ("arithmetic-swap", "twice.<locals>.inner", {"decorated": 2.0}),
        ("arithmetic-swap", "maker.<locals>.made", {"kept": 11, "made": 12}),
        ("statement-drop", "Thing.method", {"method": 1}),
    ],
)
def test_a_fault_changes_what_it_should_and_nothing_else(
    module: tuple[ModuleType, patching.Modules], kind: str, symbol: str, changed: dict[str, Any]
) -> None:
    found, modules = module
    before = behaviour(found)
    assert patching.inject(faults(kind, symbol)[0], modules) >= 1
    assert behaviour(found) == before | changed


def test_a_swapped_function_does_what_a_changed_file_does(
    module: tuple[ModuleType, patching.Modules], tmp_path: Path
) -> None:
    """Every fault of the file, put in both ways: into the running module, and by importing the changed file."""
    found, modules = module
    compared = 0
    for place in mutate.places(SOURCE.encode()):
        fault = Fault(place.kind, "sample", "replay_sample/__init__.py", place.symbol, place.line, place.edit)
        fresh = ModuleType("fresh")
        exec(compile(fault.edit.apply(SOURCE.encode()), "fresh.py", "exec"), vars(fresh))
        old = modules.swap(fault.path, fault.edit.apply(modules.sources[fault.path]))
        if place.symbol not in ("twice", "maker"):  # run at import, which is not done again
            assert _outcome(found) == _outcome(fresh), place
            compared += 1
        for function, code in old:
            function.__code__ = code
    assert compared >= 8
    assert behaviour(found) == {"plain": 5, "decorated": 8, "kept": 9, "made": 8, "method": 6}


def _outcome(module: Any) -> Any:
    try:
        return behaviour(module)
    except Exception as exc:  # noqa: BLE001 - a fault may raise anything: both ways the same
        return type(exc), str(exc)


def test_probes_tell_which_statements_were_reached(module: tuple[ModuleType, patching.Modules]) -> None:
    found, modules = module
    numbered = dict(enumerate(faults("arithmetic-swap", "plain") + faults("return-none", "plain")))
    before = behaviour(found)
    old = modules.probe(numbered)
    assert behaviour(found) == before
    patching.take_hits()
    found.plain(2, 3)
    inside = {number for number, fault in numbered.items() if fault.line == numbered[0].line}
    assert set(patching.take_hits()) == inside
    assert len(inside) == 2
    found.plain(0, 3)
    assert set(patching.take_hits()) == set(numbered) - inside
    assert patching.take_hits() == []
    for function, code in old:
        function.__code__ = code
    found.plain(2, 3)
    assert patching.take_hits() == []


def test_a_fault_without_a_place_changes_nothing(module: tuple[ModuleType, patching.Modules]) -> None:
    found, modules = module
    before = behaviour(found)
    assert modules.swap("replay_sample/__init__.py", SOURCE.encode()) == []
    assert behaviour(found) == before
