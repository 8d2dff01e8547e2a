"""Whether what is on trial may be put in force: replay and live runs must both say that it wins. A person does it.

    {"subject": "ranker:weight", "change_recall": 0.97, "baseline": 0.96, "n": 120, "seconds_share": 0.8}

is what a replay reports of a subject (``rule:``, ``ranker:`` or ``model:`` and its name), alone or in a list: of ``n``
changes known to break something, the share of which at least one failing test was selected, with the subject in force
(``change_recall``) and as things are (``baseline``), and the seconds of tests that it selects for each second that is
selected now (``seconds_share``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import comb
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from selector.errors import SelectorError
from selector.plan.observed import Observed
from selector.plan.shadow import Score

LEAST_CHANGES = 20
"""changes that a replay must have replayed"""
MOST_SECONDS = 1.5
"""times the seconds of today that a better recall may cost"""
LEAST_RUNS = 20
"""live runs in which a ranker came to the first failure sooner or later"""
ALPHA = 0.05
MOST_WRONG = 0.05
"""share of drops that may be wrong, with a confidence of 1 - ALPHA: 59 seen ones without a wrong one show it"""

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ReplayReport(BaseModel):
    """What a replay says of one subject."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    subject: Annotated[str, Field(pattern=r"^(rule|ranker|model):\S+$")]
    change_recall: Share
    baseline: Share
    n: Annotated[int, Field(ge=0)]
    seconds_share: Annotated[float, Field(ge=0.0)]

    def wins(self) -> tuple[bool, str]:
        """Finds at least as much, and either more or the same for less."""
        told = f"in replay it finds {self.change_recall:.1%} of {self.n} changes, what is in force {self.baseline:.1%}"
        if self.n < LEAST_CHANGES:
            return False, f"replayed on {self.n} changes only, {LEAST_CHANGES} are needed"
        if self.change_recall < self.baseline:
            return False, told
        if self.change_recall > self.baseline:
            too_dear = self.seconds_share > MOST_SECONDS
            return not too_dear, told + f", for {self.seconds_share:.2f} times the seconds"
        cheaper = self.seconds_share < 1.0
        return cheaper, told + (f", for {self.seconds_share:.2f} times the seconds" if cheaper else ", for no less")


class ReplayError(SelectorError):
    """A replay's report that cannot be read."""

    code = "replay-report"


_REPORTS = TypeAdapter(list[ReplayReport])
_HINT = "an object, or a list of them: subject, change_recall, baseline, n, seconds_share (docs/plan.md)"


def read_reports(text: str, source: str) -> dict[str, ReplayReport]:
    """Reports by subject; of two about one, the later. Raises ReplayError with the place."""
    try:
        value = json.loads(text)
        found = _REPORTS.validate_python(value if isinstance(value, list) else [value])
    except json.JSONDecodeError as exc:
        raise ReplayError(f"{source}:{exc.lineno}:{exc.colno}: no JSON: {exc.msg}", _HINT) from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ReplayError(f"{source}: {place}: {first['msg']}", _HINT) from exc
    return {one.subject: one for one in found}


@dataclass(frozen=True, slots=True)
class Answer:
    """``why`` is a sentence without its first capital."""

    ready: bool
    why: str


def may_take_over(live: Score | Observed, replay: ReplayReport | None) -> Answer:
    """``live``: a ranker's score, or the counts of a rule or a model."""
    if replay is None:
        return Answer(False, "it was not replayed")
    won, told = replay.wins()
    if not won:
        return Answer(False, told)
    answer = _ranker(live) if isinstance(live, Score) else _rule(live)
    return Answer(answer.ready, f"{answer.why}, and {told}" if answer.ready else answer.why)


def _ranker(live: Score) -> Answer:
    told = live.wins + live.losses
    if live.misses:
        return Answer(False, f"live it would have lost {live.misses} failures")
    if told < LEAST_RUNS or live.p > ALPHA:
        return Answer(False, f"live it won {live.wins} of {told} runs (p = {live.p:.3f})")
    return Answer(True, f"live it won {live.wins} of {told} runs")


def _rule(live: Observed) -> Answer:
    if live.errors:
        return Answer(False, f"it broke in {live.errors} of {live.runs} runs")
    if not live.adds and not live.drops:
        return Answer(False, f"it never differed in {live.runs} runs")
    said = []
    if live.drops:
        if live.drops_broken or live.drops_engaged:
            wrong = f"{live.drops_broken} that the change broke, {live.drops_engaged} that ran kernels"
            return Answer(False, f"live it would have dropped {wrong}")
        if (1 - MOST_WRONG) ** live.drops_seen > ALPHA:
            return Answer(False, f"live {live.drops_seen} of its drops ran and were right: too few to tell")
        said.append(f"live all {live.drops_seen} of its drops that ran were right")
    if live.adds:
        broken = breaks_more_often(live)
        engaged = more_than_half(live.adds_engaged, live.adds_seen)
        if broken <= ALPHA:
            said.append(
                f"live {live.adds_broken} of {live.adds_seen} drawn tests that it adds broke (p = {broken:.3f})"
            )
        elif engaged <= ALPHA:
            said.append(f"live {live.adds_engaged} of {live.adds_seen} drawn tests that it adds ran kernels")
        else:
            seen = f"{live.adds_broken} broke, {live.adds_engaged} ran kernels"
            return Answer(False, f"exploration drew {live.adds_seen} of the tests that it adds: {seen}")
    return Answer(True, " and ".join(said))


def breaks_more_often(live: Observed) -> float:
    """The probability that so many of the broken drawn tests are among those that it adds, if it added at random
    (hypergeometric)."""
    broken = live.adds_broken + live.others_broken
    drawn = live.adds_seen + live.others_seen
    if not broken or not live.adds_seen:
        return 1.0
    ways = sum(
        comb(live.adds_seen, k) * comb(live.others_seen, broken - k)
        for k in range(live.adds_broken, min(broken, live.adds_seen) + 1)
        if broken - k <= live.others_seen
    )
    return ways / comb(drawn, broken)


def more_than_half(count: int, of: int) -> float:
    """The probability of at least ``count`` of ``of`` heads of a fair coin."""
    return sum(comb(of, k) for k in range(count, of + 1)) / 2**of if of else 1.0
