"""What tests two trees have, compared: new, gone, renamed, and changed ones with the parts of them that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from selector.discover.fingerprints import Part, Prints, differences
from selector.discover.inventory import Inventory, Known
from selector.model import TestId


@dataclass(frozen=True, slots=True)
class Difference:
    """``renamed``: new id -> old id, of tests with one and the same body that no other test has; ``changed``: part ->
    the symbols that differ; ``library``: keys of the shared test library that differ, ``path::symbol``; ``cosmetic``:
    test files whose text differs and in which no test does."""

    new: tuple[TestId, ...]
    gone: tuple[TestId, ...]
    renamed: Mapping[TestId, TestId]
    changed: Mapping[TestId, Mapping[Part, tuple[str, ...]]]
    library: tuple[str, ...]
    cosmetic: tuple[str, ...]
    same: int


def difference(old: Inventory, new: Inventory) -> Difference:
    """Compares by id first, then by body."""
    before, after = _tests(old), _tests(new)
    prints = Prints(old), Prints(new)
    library = _library(*prints)
    gone = [test for test in before if test not in after]
    fresh = [test for test in after if test not in before]
    renamed = _renamed(prints, {t: before[t] for t in gone}, {t: after[t] for t in fresh})
    same_files = {path for path, content in new.ids.items() if old.ids.get(path) == content}
    changed: dict[TestId, Mapping[Part, tuple[str, ...]]] = {}
    for test in after:
        earlier = renamed.get(test, test)
        if earlier not in before:
            continue
        touched = {test.file, after[test].origin.path, before[earlier].origin.path} - same_files
        if not touched and not library:
            continue
        if not touched and not library & (prints[0].library.keys(earlier) | prints[1].library.keys(test)):
            continue
        parts = differences(prints[0].parts(earlier), prints[1].parts(test))
        if parts:
            changed[test] = parts
    came_from = set(renamed.values())
    with_changes = {test.file for test in (*changed, *fresh, *gone)}
    differing = [path for path in new.ids if path in old.ids and path not in same_files]
    return Difference(
        tuple(test for test in fresh if test not in renamed),
        tuple(test for test in gone if test not in came_from),
        renamed,
        changed,
        tuple(sorted(library)),
        tuple(path for path in sorted(differing) if path.startswith("test/") and path not in with_changes),
        len(after) - len(fresh) - len(changed.keys() - renamed.keys()),
    )


def _tests(inventory: Inventory) -> dict[TestId, Known]:
    return {test: known for path in sorted(inventory.files) for test, known in inventory.known(path).items()}


def _library(old: Prints, new: Prints) -> frozenset[str]:
    keys = old.hashes.keys() | new.hashes.keys()
    return frozenset(key for key in keys if old.hashes.get(key) != new.hashes.get(key))


def _renamed(
    prints: tuple[Prints, Prints], gone: Mapping[TestId, Known], fresh: Mapping[TestId, Known]
) -> dict[TestId, TestId]:
    by_body: tuple[dict[str, list[TestId]], dict[str, list[TestId]]] = (defaultdict(list), defaultdict(list))
    for side, tests in enumerate((gone, fresh)):
        for test, known in tests.items():
            if known.how == "written":
                symbol = prints[side].inventory.files[known.origin.path].symbols[known.origin.key]
                by_body[side][symbol.body or symbol.own].append(test)
    pairs = ((by_body[0].get(body, []), tests) for body, tests in by_body[1].items())
    return {now[0]: then[0] for then, now in pairs if len(then) == 1 and len(now) == 1}
