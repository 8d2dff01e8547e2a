"""Whether a patched config says what was wanted, and nothing else: lint, and a comparison of what both texts mean."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import date

from selector.configs import Capability, ConfigProblem, ConfigSource, Precision, ReuseConfigs, lint, load_configs
from selector.configs.diff import Side, diff, named_tests
from selector.configs.upstream import Upstream
from selector.plan.patch import ConfigEdit
from selector.plan.patch_tolerance import ToleranceEdit, number


def validate(
    before: Sequence[ConfigSource],
    after: Sequence[ConfigSource],
    edits: Sequence[ConfigEdit | ToleranceEdit],
    capability: Capability | None,
    today: date,
    *,
    compat: bool = False,
    upstream: Upstream | None = None,
) -> list[str]:
    """What is wrong with a patch, as sentences; none: it may be proposed. Both sides are all configs of the device."""
    known = {_kind(p) for p in lint(before, compat=compat, today=today, upstream=upstream)}
    new = [p for p in lint(after, compat=compat, today=today, upstream=upstream) if _kind(p) not in known]
    wrong = [f"new problem: {p}" for p in new]
    if any(p.level == "error" for p in new):
        return wrong
    sides = [Side(load_configs(sources, compat=compat), capability) for sources in (before, after)]
    wanted = {edit.test: edit.mode for edit in edits if isinstance(edit, ConfigEdit)}
    for change in diff(sides[0], sides[1], list(dict.fromkeys([*named_tests(*sides), *wanted]))):
        if change.test not in wanted:
            wrong.append(f"{change.test} changes too: {change.before} -> {change.after}")
    for edit in edits:
        if isinstance(edit, ToleranceEdit):
            wrong += _tolerance(edit, sides[1].configs)
            continue
        rule = sides[1].configs.rule(edit.test)
        if edit.mode is not None and rule.mode is not edit.mode:
            wrong.append(f"{edit.test} is {rule.mode.value} by {rule.source or 'no entry'}, not {edit.mode.value}")
        elif edit.mode is None and rule == sides[0].configs.rule(edit.test) and before != after:
            wrong.append(f"{edit.test} is {rule.mode.value} by {rule.source or 'no entry'}, as before")
    return wrong


def _tolerance(edit: ToleranceEdit, configs: ReuseConfigs) -> list[str]:
    """What is written has two digits."""
    is_ = configs.precision(edit.test, edit.op, edit.dtype)
    wanted = Precision(float(number(edit.atol)), float(number(edit.rtol)))
    what = " ".join(word for word in (edit.op, edit.dtype) if word)
    return [] if is_ == wanted else [f"{edit.test}: the tolerance of {what} is {is_}, not {wanted}"]


def _kind(problem: ConfigProblem) -> tuple[str, str, str]:
    return problem.source, problem.code, problem.message.partition(" (the other")[0]


def unified(before: Sequence[ConfigSource], after: Sequence[ConfigSource]) -> str:
    """The patch as ``git apply`` takes it, for files that differ."""
    old: Mapping[str, str] = {source.name: source.text for source in before}
    parts: list[str] = []
    for source in after:
        was = old[source.name]
        if was == source.text:
            continue
        names = f"a/{source.name}", f"b/{source.name}"
        lines = difflib.unified_diff(was.splitlines(keepends=True), source.text.splitlines(keepends=True), *names)
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)
