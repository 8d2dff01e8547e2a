"""Inputs that a config gives to tests which take none: only ``@ops`` and ``@modules`` hand a test what it is called
with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from selector.configs.check import problem_at
from selector.configs.model import ConfigProblem
from selector.configs.patterns import NamePattern
from selector.configs.tree import FileEntry, Item, TestEntry
from selector.discover.inventory import Inventory, Known

_KINDS = ("ops", "modules")


def check_inputs(file: FileEntry, paths: Iterable[str], inventory: Inventory) -> Iterator[ConfigProblem]:
    """A warning for each name of an entry with inputs whose tests, as upstream's source has them, all lack the
    decorator. A name that names no test is another check's."""
    entries = [(entry, kinds) for entry in file.tests if (kinds := _given(entry))]
    if not entries:
        return
    known = [test for path in paths for test in inventory.known(path).values()]
    for entry, kinds in entries:
        for name in entry.names:
            tests = [test for test in known if name.matches(test.id)]
            if tests:
                yield from _unused(entry, name, tests, kinds)


def _given(entry: TestEntry) -> dict[str, Item | None]:
    """Kinds of decorator that the entry's inputs are for, with the item that gives them (None: ``edits.inputs``)."""
    found: dict[str, Item | None] = dict.fromkeys(_KINDS) if entry.inputs else {}
    for kind, items in (("ops", entry.ops.include), ("modules", entry.modules.include)):
        item = next((i for i in items if i.inputs or i.constructor), None)
        if item is not None:
            found.setdefault(kind, item)
    return found


def _unused(
    entry: TestEntry, name: NamePattern, tests: list[Known], kinds: dict[str, Item | None]
) -> Iterator[ConfigProblem]:
    used = {kind for kind in kinds if any(_takes(test, kind) for test in tests)}
    asked = [kind for kind in kinds if kinds[kind] is None]
    if asked and not used.intersection(asked):
        message = f"edits.inputs has no effect: {name.text!r} names no test with @ops or @modules"
        hint = "take the inputs out; such a test makes its own"
        yield problem_at(entry.inputs[0].place, "warning", "config-inputs-unused", message, hint)
    for kind, item in kinds.items():
        if item is not None and kind not in used:
            message = f"the inputs of {item.name} have no effect: {name.text!r} names no test with @{kind}"
            hint = "take the inputs out; such a test makes its own"
            yield problem_at(item.place, "warning", "config-inputs-unused", message, hint)


def _takes(test: Known, kind: str) -> bool:
    """Whether a test has the decorator, or one called like it (``_gradcheck_ops``, a ``partial`` of upstream's)."""
    recorded = test.method.ops if kind == "ops" else test.method.modules
    return recorded is not None or any(decorator.name.endswith(kind) for decorator in test.method.decorators)
