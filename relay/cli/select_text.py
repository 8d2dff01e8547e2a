"""A selection as JSON and as text for people. Upstream's text (titles, paths) is printed as data: no markup, no
control characters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from selector.agents.records import Record
from selector.model import Decision, Evidence, OnTrial, PlannedTest, Selection, Stage
from selector.plan.codes import DISPUTED

ALIKE = 5
"""tests with the very same reason that are named one by one; the rest is counted"""


def to_value(selection: Selection) -> dict[str, Any]:
    """Plain JSON values: what was selected, what was not, and every decision in the order of the stages."""
    plan = selection.plan
    return {
        "base": selection.change.base,
        "head": selection.change.head,
        "title": selection.change.title,
        "files": [{"path": f.path, "status": f.status, "old_path": f.old_path} for f in selection.change.files],
        "counts": selection.counts,
        "timings": selection.timings,
        "warnings": list(selection.warnings),
        "runtime": {"kind": plan.runtime.kind.value, "torch": plan.runtime.torch, "files": list(plan.runtime.files)},
        "partial": plan.partial,
        "tests": [
            {
                "test": str(t.test),
                "mode": t.mode.value,
                "priority": t.priority,
                "est_seconds": t.est_seconds,
                "codes": list(t.codes),
                "config": t.config,
                "ops": list(t.ops),
                "mode_code": t.mode_code,
            }
            for t in plan.tests
        ],
        "shards": [
            {"index": s.index, "tests": [str(t) for t in s.tests], "est_seconds": s.est_seconds} for s in plan.shards
        ],
        "left_out": [{"test": str(x.test), "est_seconds": x.est_seconds, "reason": x.reason} for x in plan.left_out],
        "not_exercised": [asdict(n) for n in plan.not_exercised],
        "decisions": [{**asdict(d), "stage": d.stage.value} for d in selection.decisions],
        "on_trial": [
            {
                "subject": one.subject,
                "adds": [str(test) for test in one.adds],
                "drops": [str(test) for test in one.drops],
                "decisions": [{**asdict(d), "stage": d.stage.value} for d in one.decisions],
                "error": one.error,
            }
            for one in selection.shadow.opinions
        ],
    }


def record_value(record: Record) -> dict[str, Any]:
    """A question to a model, as plain JSON values, with its transcript."""
    return {**asdict(record), "stage": record.stage.value}


def print_asked(records: Sequence[Record], console: Console) -> None:
    """What a model was asked, and what became of each line of its answers."""
    for one in records:
        used = one.used
        _title(console, f"{one.stage.value}: {one.agent} {one.model} ({one.code})")
        tokens = f"{used.steps} requests, {used.read + used.written} tokens, {used.usd:.4f} US dollars"
        print_line(console, "", f"{one.reason}; {tokens}, {used.seconds:.1f} s")
        for line in one.taken:
            print_line(console, f"  {line.subject}", f"  {line.said}: {line.reason}")
        for line in one.refused:
            print_line(console, f"  {line.subject}", f"  {line.said}, refused ({line.code}): {line.reason}")


def print_summary(selection: Selection, console: Console) -> None:
    """One line a planned test, then what else is to know."""
    _headline(selection, console)
    for test in selection.plan.tests:
        print_line(console, f"  {test.test}", f"  {', '.join(test.codes)}")
    _not_exercised(selection, console)
    _foot(selection, console)
    print_line(console, "", "--explain says why each was selected, and why others were not")


def print_explained(selection: Selection, console: Console) -> None:
    """What every stage decided: why tests run, why others do not, what stays untried."""
    by_subject: dict[str, list[Decision]] = defaultdict(list)
    for decision in selection.decisions:
        by_subject[decision.subject].append(decision)
    _headline(selection, console)
    _files(selection, by_subject, console)
    _selected(selection.plan.tests, by_subject, console)
    _dropped(selection, console)
    _not_exercised(selection, console)
    _on_trial(selection.shadow.opinions, console)
    _foot(selection, console)


def _headline(selection: Selection, console: Console) -> None:
    counts, runtime = selection.counts, selection.plan.runtime
    print_line(console, f"{selection.change.base[:12]}..{selection.change.head[:12]}", f"  {selection.change.title}")
    files, native = counts["files"], counts.get("native_files", 0)
    text = (
        f"{files} changed {'file reaches' if files == 1 else 'files reach'} {counts['impacted']} tests (the tree has "
        f"{counts['tests']} test methods); {counts['relevant']} are for this device; {counts['planned']} run (about "
        f"{counts['est_variants']} variants), {runtime.kind.value} on torch {runtime.torch}"
    )
    print_line(console, "", text)
    if native:
        which, it = ("It is", "it") if files == 1 else (f"{native} of them {'is' if native == 1 else 'are'}", "that")
        wide = any(d.subject == "change" and d.code == "unmapped-change" for d in selection.decisions)
        text = f"{which} native code, which takes effect in a build only: {counts['native_impacted']} of the tests"
        print_line(console, "", f"{text} are reached by {it}{', the widening left out' if wide else ''}")
    if selection.plan.partial:
        print_line(console, "", f"The plan is partial: {counts['left_out']} tests did not fit into the budget.")


def _files(selection: Selection, by_subject: dict[str, list[Decision]], console: Console) -> None:
    _title(console, "1. Discover: the changed files")
    for path in ["change", *(file.path for file in selection.change.files)]:
        for decision in by_subject.get(path, ()):
            if decision.stage is Stage.DISCOVER:
                print_line(
                    console,
                    f"  {decision.code:<16} ",
                    f"{'the change' if path == 'change' else path}: {decision.reason}",
                )
    for decision in selection.decisions:
        if decision.stage is Stage.DISCOVER and decision.verdict == "gone":
            print_line(console, f"  {decision.code:<16} ", f"{decision.subject}: {decision.reason}")


def _selected(tests: Iterable[PlannedTest], by_subject: dict[str, list[Decision]], console: Console) -> None:
    _title(console, "2. Selected, and why")
    alike: dict[tuple[str, ...], list[PlannedTest]] = defaultdict(list)
    for test in tests:
        # tests that only the widening put in have one reason in common; others may have the very same evidence
        facts = [
            fact.detail
            for decision in by_subject.get(str(test.test), ())
            if decision.stage is Stage.DISCOVER
            for fact in decision.evidence
        ]
        alike[("unmapped-change",) if test.codes == ("unmapped-change",) else (*test.codes, *facts)].append(test)
    for group in alike.values():
        for test in group[:ALIKE]:
            _one(test, by_subject.get(str(test.test), []), console)
        if len(group) > ALIKE:
            print_line(console, f"  ... and {len(group) - ALIKE} more", " for the same reason")
    if not alike:
        print_line(console, "", "  no test")


def _one(test: PlannedTest, decisions: list[Decision], console: Console) -> None:
    print_line(console, f"  {test.test}", f"  {test.mode.value} ({test.mode_code}), about {test.est_seconds:.1f} s")
    for decision in decisions:
        if decision.code == DISPUTED or decision.code == test.mode_code:
            print_line(console, f"    {decision.code:<24} ", decision.reason)
        if decision.stage is Stage.DISCOVER:
            for number, fact in enumerate(decision.evidence[:3]):
                print_line(console, f"    {fact.kind if number else decision.code:<24} ", _fact(fact))
            more = len(decision.evidence) - 3
            if more > 0:
                print_line(console, "", f"    {'':<24} and {more} more reasons")
        elif decision.stage is Stage.TRIAGE:
            print_line(console, f"    {decision.code:<24} ", decision.reason)
    if test.codes == ("unmapped-change",):
        print_line(console, f"    {'unmapped-change':<24} ", "what the change reaches is not fully known, see above")


def _dropped(selection: Selection, console: Console) -> None:
    _title(console, "3. Reached, but not run")
    groups: dict[tuple[str, str], list[Decision]] = defaultdict(list)
    for decision in selection.decisions:
        dropped = decision.stage is Stage.TRIAGE and decision.verdict == "irrelevant"
        if dropped or (decision.stage is Stage.PLAN and decision.verdict == "left-out"):
            groups[decision.code, decision.reason].append(decision)
    for (code, reason), decisions in groups.items():
        print_line(console, f"  {code:<26} ", reason)
        for decision in decisions[:ALIKE]:
            place = next((fact for fact in decision.evidence if fact.path), None)
            at = f"  {place.detail} ({place.path}:{place.line})" if place is not None and place.line else ""
            print_line(console, f"    {decision.subject}", at)
        if len(decisions) > ALIKE:
            print_line(console, f"    ... and {len(decisions) - ALIKE} more", "")
    if not groups:
        print_line(console, "", "  nothing")


def _not_exercised(selection: Selection, console: Console) -> None:
    if selection.plan.not_exercised:
        _title(console, "4. Not exercised: the torch that runs does not contain it")
        for item in selection.plan.not_exercised:
            print_line(console, f"  {item.path}", f"  {item.reason}")


def _on_trial(opinions: Iterable[OnTrial], console: Console) -> None:
    """What rules and models that are not in force would have decided otherwise."""
    told = [one for one in opinions if one.adds or one.drops or one.error]
    if told:
        _title(console, "On trial, without effect")
    for one in told:
        said = f"would keep {len(one.adds)} more, and drop {len(one.drops)}"
        print_line(console, f"  {one.subject}  ", f"broke: {one.error}" if one.error else said)
        for decision in one.decisions[:ALIKE]:
            print_line(console, f"    {decision.code:<24} ", f"{decision.subject}: {decision.reason}")


def _foot(selection: Selection, console: Console) -> None:
    for warning in selection.warnings:
        print_line(console, "  warning ", warning)
    spent = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in selection.timings.items())
    print_line(console, "", spent)


def _fact(fact: Evidence) -> str:
    place = f" ({fact.path}:{fact.line})" if fact.path and fact.line else ""
    return fact.detail + place


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def print_line(console: Console, strong: str, plain: str) -> None:
    """One line, its first part bold, neither wrapped nor read as markup."""
    line = Text.assemble((_clean(strong), "bold"), _clean(plain))
    console.print(line, soft_wrap=True, highlight=False)


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
