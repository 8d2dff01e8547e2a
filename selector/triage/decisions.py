"""What people decided about upstream's tests, read from reuse configs: names, modes, and comments that say why."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml
from yaml.nodes import MappingNode, SequenceNode

from selector.configs import ConfigSource, load_configs
from selector.configs.comments import EntryComments, entry_comments, find_comments
from selector.configs.patterns import NamePattern
from selector.configs.tree import FileEntry, Suite, TestEntry
from selector.discover import Inventory
from selector.discover.inventory import Known
from selector.model import Mode, TestId

NOT_ENGAGED = re.compile(r"\b(?:do|does|did)(?: not|n't) engage\b", re.IGNORECASE)
"""how a comment says that a test does not engage the device layer"""
_VARIES = frozenset({"parametrize", "parametrize_test", "ops", "modules", "optims"})
TUNED, HELD_OUT = "tuned", "held-out"


@dataclass(frozen=True, slots=True)
class Decided:
    """One name of one entry. ``engages``: False where the entry says skip because the test does not engage the device
    layer. ``tests``: what it names in the tree: the test itself, or that of which it is a generated name.
    ``op_dtypes``: those that the config lists for any op, with which the older tool tries tests of ops."""

    config: str
    line: int
    path: str
    name: str
    mode: Mode
    comment: str
    tests: tuple[TestId, ...] = ()
    op_dtypes: frozenset[str] = frozenset()

    @property
    def engages(self) -> bool:
        return not (self.mode is Mode.SKIP and NOT_ENGAGED.search(self.comment))

    @property
    def part(self) -> str:
        return part_of(self.path)


def part_of(path: str) -> str:
    """``tuned`` or ``held-out``: by the hash of the upstream file's path, so that no file is in both."""
    return HELD_OUT if hashlib.blake2b(path.encode(), digest_size=8).digest()[0] % 2 else TUNED


def read_decisions(sources: Sequence[ConfigSource], inventory: Inventory) -> list[Decided]:
    """Every name of every entry about an upstream file, in order of config and line. Raises ConfigError."""
    texts = {source.name: source.text for source in sources}
    found: list[Decided] = []
    for suite in load_configs(sources, compat=True).suites:
        said = _comments(texts[suite.source])
        for file in suite.files:
            if file.path.path is not None:
                found.extend(_of_file(suite, file, said, inventory))
    return found


def _comments(text: str) -> Mapping[int, EntryComments]:
    """The comments of each entry, by the 1-based line of its first name."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    entries = entry_comments(root, find_comments(text)) if root is not None else []
    return {line: entry for entry in entries if (line := _first_name(entry.node)) is not None}


def _first_name(node: MappingNode) -> int | None:
    for key, value in node.value:
        if key.value == "names":
            first = value.value[0] if isinstance(value, SequenceNode) and value.value else value
            return int(first.start_mark.line) + 1
    return None


def _of_file(
    suite: Suite, file: FileEntry, said: Mapping[int, EntryComments], inventory: Inventory
) -> Iterator[Decided]:
    paths = [path for path in inventory.files if file.path.matches(path)]
    op_dtypes = frozenset(dtype.name for op in suite.globals.ops or () for dtype in op.dtypes or ())
    for entry in file.tests:
        for name in entry.names:
            tests = tuple(dict.fromkeys(test for path in paths for test in named(name, inventory.known(path).values())))
            comment = _comment(entry, name, said)
            yield Decided(
                suite.source, _line(name), file.path.path or "", name.text, entry.mode, comment, tests, op_dtypes
            )


def _comment(entry: TestEntry, name: NamePattern, said: Mapping[int, EntryComments]) -> str:
    comments = said.get(_line(entry.names[0]))
    if comments is None:
        return ""
    own = comments.names.get(_line(name) - 1, [])
    return " ".join(" ".join(c.said for c in (*comments.whole, *own)).split())


def _line(name: NamePattern) -> int:
    return name.place.line if name.place is not None else 0


def named(name: NamePattern, tests: Iterable[Known]) -> list[TestId]:
    """The tests that a name means. Of a generated name (``test_a_mode_eager``), the test that it was generated from."""
    among = [known for known in tests if name.covers_class(known.id.cls)]
    exact = [known.id for known in among if name.matches(known.id)]
    if exact or name.method_regex is not None:
        return exact
    bases = [k for k in among if name.method.startswith(f"{k.id.method}_") and _varies(k)]
    longest = max((len(k.id.method) for k in bases), default=0)
    return [k.id for k in bases if len(k.id.method) == longest]


def _varies(known: Known) -> bool:
    return known.method.factor > 1 or any(d.name in _VARIES for d in known.method.decorators)
