"""Stage 4: what does a failure come from, as its log shows it? A note beside the verdict, never a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selector.agents.budget import Meter
from selector.agents.check import in_log
from selector.agents.desk import Desk, data
from selector.agents.mind import Mind, Question
from selector.agents.prompts import CAUSES
from selector.agents.records import Journal, Line, Unanswered
from selector.agents.scrub import cut
from selector.agents.sheets import CauseLine, CauseSheet, known_only
from selector.model import Decision, Evidence, Stage

FAILURES = 20
LOG = 3_000


@dataclass(frozen=True, slots=True)
class Failure:
    """One cause of a verdict: ``id`` names it, ``key`` is a variant that failed of it, ``kind`` the verdict's word."""

    id: str
    key: str
    kind: str
    message: str
    log: str

    @property
    def text(self) -> str:
        return f"{self.message}\n{self.log}"


def explain(
    failures: Sequence[Failure], changed: Sequence[str], mind: Mind, desk: Desk, meter: Meter, journal: Journal
) -> list[Decision]:
    """A decision for each failure whose cause was named with a line of its log; the subject is the variant."""
    shown = failures[:FAILURES]
    if not shown:
        return []
    used = meter.used()
    desk.again()
    desk.logs = {one.id: one.text for one in shown}
    logs = "\n\n".join(f"failure {f.id} ({f.kind}): {f.key}\n{cut(f.text, LOG)}" for f in shown)
    paths = "\n".join(changed[:100])
    sheet = known_only(CauseSheet, CauseLine, "failure", [one.id for one in shown])
    prompt = f"The change touches:\n{data(desk.scrub(paths))}\n\nThe failures:\n{data(desk.scrub(logs))}"
    try:
        reply = mind.ask(Question(CAUSES, prompt, sheet, desk, ("show_log", "show_device", "show_history")), meter)
    except Unanswered as exc:
        journal.unanswered(Stage.VERIFY, "model", mind.name, exc, meter.since(used))
        return []
    by_id = {one.id: one for one in shown}
    taken: dict[str, Decision] = {}
    refused: list[Line] = []
    for line in reply.sheet.lines:
        failure = by_id.get(line.failure)
        fact = in_log(line.quote, desk.scrub(failure.text), "log") if failure is not None else None
        if failure is None:
            refused.append(Line(line.failure, line.cause, "there is no such failure", "agent-unknown-id"))
        elif failure.id in taken:
            refused.append(Line(line.failure, line.cause, "answered twice", "agent-twice"))
        elif fact is None:
            refused.append(Line(line.failure, line.cause, line.reason, "agent-quote-not-found"))
        else:
            taken[failure.id] = Decision(
                Stage.VERIFY,
                failure.key,
                line.cause.value,
                code="agent-cause",
                reason=f"a model reads the log so: {line.reason}",
                evidence=(fact, Evidence("verdict", f"the verdict says {failure.kind}; this does not change it")),
                confidence=0.5,
                by="model",
            )
    journal.add(
        Stage.VERIFY,
        "model",
        mind.name,
        "agent-answered",
        f"{len(shown)} failures, a cause for {len(taken)}",
        meter.since(used),
        [Line(by_id[name].key, one.verdict, one.reason) for name, one in taken.items()],
        refused,
        reply.transcript,
        reply.abilities,
    )
    return list(taken.values())
