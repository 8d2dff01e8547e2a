"""Collects upstream's files with pytest and finds the variants a shard asks for. Runs in the host process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from relay.reuse.plain import govern
from relay.reuse.policy import Reuse
from relay.reuse.registry import VariantRecord
from relay.worker.spec import Shard
from selector.model import TestId

INI = "[pytest]\npython_files = *.py\n"


def arguments(tree: Path, ini: Path, files: Sequence[str]) -> list[str]:
    """pytest's arguments: its own ini and no conftest of upstream's, so that a change cannot steer the collection."""
    return [
        "-c",
        str(ini),
        f"--rootdir={tree}",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "--assert=plain",
        "--continue-on-collection-errors",
        "-q",
        "-s",
        "-W",
        "ignore",
        *(str(tree / name) for name in files),
    ]


@dataclass(slots=True)
class Found:
    """What a collection found: per key the item to run and the record of how."""

    items: dict[str, Any] = field(default_factory=dict)
    records: list[VariantRecord] = field(default_factory=list)
    matched: set[TestId] = field(default_factory=set)
    collected: int = 0


class FileProgress:
    """A pytest plugin that says which file is being imported, and what became of it.

    ``say(file, state, message)``: state is ``start`` or ``end``; the message is the import error, if any.
    """

    def __init__(self, reuse: Reuse, say: Callable[[str, str, str | None], None]) -> None:
        self._reuse = reuse
        self._say = say

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Any:
        if not isinstance(collector, pytest.Module):
            return (yield)
        file = self._reuse.file_of(str(collector.path))
        self._say(file, "start", None)
        report = yield
        self._say(file, "end", str(report.longrepr) if report.failed else None)
        return report


def find(items: Sequence[Any], shard: Shard, reuse: Reuse) -> Found:
    """The variants of ``items`` that the shard asks for and that are not done, in the order of its tests."""
    order = {test: position for position, test in enumerate(shard.tests)}
    found = Found(collected=len(items))
    reached: set[TestId] = set()
    chosen: list[tuple[int, int, VariantRecord, Any]] = []
    for position, item in enumerate(items):
        record = _record(item, reuse)
        if record is None or record.test not in order:
            continue
        found.matched.add(record.test)
        if record.test in shard.ops:
            if record.op is not None and record.op not in shard.ops[record.test]:
                continue
            reached.add(record.test)
        if record.key in shard.done or (shard.variants is not None and record.key not in shard.variants):
            continue
        chosen.append((order[record.test], position, record, item))
    for test in sorted(found.matched & shard.ops.keys() - reached):
        ops = ", ".join(sorted(shard.ops[test]))
        reuse.registry.note_emptied(
            test, f"on this device none of its variants runs {ops}, all that the change reaches"
        )
    for _, _, record, item in sorted(chosen, key=lambda c: c[:2]):
        if record.key not in found.items:
            found.items[record.key] = item
            found.records.append(record)
    return found


def _record(item: Any, reuse: Reuse) -> VariantRecord | None:
    cls = getattr(item, "cls", None)
    if cls is None:
        return None
    method = getattr(item, "originalname", None) or item.name
    record = reuse.registry.own(cls, method)
    if record is not None:
        return record
    record = govern(reuse, cls, method, str(item.path))
    item._obj = None  # pytest looks it up again: it may be another function now
    return record
