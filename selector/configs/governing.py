"""Which of the entries that name a test governs a variant, and what it says.

Entries for one test are a union. Specificity, strongest first: an exact method name before a regex; a named class
before a class pattern before none; naming the variant's op or dtype (``edits.*.include``) before naming none before
naming only others; an exact path before a glob; and last the order of writing. Ops and dtypes are compared as the
generator's own objects name them, never by taking a generated method name apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from selector.configs.model import VariantRule, op_names
from selector.configs.patterns import dtype_name
from selector.configs.rank import Match, rank_key
from selector.configs.selectors import TestFacts, refusal
from selector.configs.tree import Edits, FileEntry, Item, Suite, TestEntry
from selector.model import Mode, TestId

Cause = Literal["uncovered", "unlisted", "excluded", "not-selected", "entry", "forced"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """A rule with its origin: the entry that governs (``match``), those it beat, and the item that decided."""

    rule: VariantRule
    cause: Cause
    match: Match | None = None
    beaten: tuple[Match, ...] = ()
    item: Item | None = None
    file: FileEntry | None = None


def decide(
    test: TestId,
    files: Sequence[tuple[Suite, FileEntry]],
    matches: Sequence[Match],
    ops: frozenset[str],
    dtypes: frozenset[str],
    facts: TestFacts | None = None,
) -> Ruling:
    """How the variant of a test with these spellings of op and dtype (``words``) is to be run. ``files``: the entries
    for its file, ``matches``: those that name it, each the most specific first."""
    if not files:
        return Ruling(VariantRule(Mode.SKIP, False, f"no config covers {test.file}"), "uncovered")
    if not matches:
        return _unlisted(*files[0], ops, dtypes)
    for names, pick in ((ops, ops_of), (dtypes, dtypes_of)):
        gone = excluded(matches, names, pick)
        if gone is not None:
            match, item = gone
            reason = item.why.reason or match.entry.why.reason or f"{item.name} is excluded for this test"
            issue = item.why.issue or match.entry.why.issue
            rule = VariantRule(Mode.SKIP, True, reason, issue, str(item.place), match.entry.tags)
            return Ruling(rule, "excluded", match, item=item)
    match, *beaten = ranked(matches, ops, dtypes)
    entry = match.entry
    named = find(entry.ops.include, ops) or find(entry.dtypes.include, dtypes)
    why = named.why if named is not None and named.why.reason else entry.why
    rule = VariantRule(entry.mode, True, why.reason, why.issue or entry.why.issue, str(entry.place), entry.tags)
    if facts is not None and (refused := refusal(entry.selectors, test, facts)) is not None:
        rule = VariantRule(Mode.SKIP, True, refused, rule.issue, rule.source, entry.tags)
        return Ruling(rule, "not-selected", match, tuple(beaten))
    forced, by = _forced(rule, match.suite, ops, dtypes)
    return Ruling(forced, "entry" if by is None else "forced", match, tuple(beaten), by)


def words(op: str | None, op_variant: str, dtype: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """The spellings by which configs may name an OpInfo (``name``, ``variant_test_name``) and a dtype."""
    ops = op_names(op, op_variant) if op is not None else frozenset()
    return ops, frozenset((dtype_name(dtype.removeprefix("torch.")),)) if dtype is not None else frozenset()


def find(items: Sequence[Item], names: frozenset[str]) -> Item | None:
    """The first item that is called by one of the names."""
    return next((item for item in items if item.name in names), None)


def ranked(matches: Sequence[Match], ops: frozenset[str], dtypes: frozenset[str]) -> Sequence[Match]:
    """Entries that can govern this op and dtype, the one that does first."""
    if len(matches) == 1:
        return matches
    fit = [m for m in matches if not find(m.entry.ops.exclude, ops) and not find(m.entry.dtypes.exclude, dtypes)]
    return sorted(fit or matches, key=lambda m: rank_key(m, ops, dtypes), reverse=True)


def excluded(
    matches: Sequence[Match], names: frozenset[str], pick: Callable[[TestEntry], Edits]
) -> tuple[Match, Item] | None:
    """The exclusion that holds: no entry at least as specific includes the same thing by name."""
    for match in matches:
        item = find(pick(match.entry).exclude, names)
        if item is not None and not any(
            m is not match and m.rank >= match.rank and find(pick(m.entry).include, names) for m in matches
        ):
            return match, item
    return None


def _unlisted(suite: Suite, file: FileEntry, ops: frozenset[str], dtypes: frozenset[str]) -> Ruling:
    reason = file.why.reason
    if file.unlisted is Mode.SKIP and not reason:
        reason = f"not listed in {file.place.source}, which skips unlisted tests of {file.path.text}"
    rule = VariantRule(file.unlisted, False, reason, file.why.issue, str(file.place))
    forced, item = _forced(rule, suite, ops, dtypes)
    return Ruling(forced, "unlisted" if item is None else "forced", item=item, file=file)


def _forced(
    rule: VariantRule, suite: Suite, ops: frozenset[str], dtypes: frozenset[str]
) -> tuple[VariantRule, Item | None]:
    """``force_xfail`` of a supported op or dtype weakens mandatory_success to xfail."""
    if rule.mode is not Mode.MANDATORY_SUCCESS:
        return rule, None
    for items, names in ((suite.globals.ops, ops), (suite.globals.dtypes, dtypes)):
        item = find(items or (), names)
        if item is not None and item.force_xfail:
            reason = item.why.reason or f"{item.name} is marked force_xfail"
            forced = VariantRule(Mode.XFAIL, rule.listed, reason, item.why.issue, str(item.place), rule.tags)
            return forced, item
    return rule, None


def ops_of(entry: TestEntry) -> Edits:
    return entry.ops


def dtypes_of(entry: TestEntry) -> Edits:
    return entry.dtypes


def modules_of(entry: TestEntry) -> Edits:
    return entry.modules
