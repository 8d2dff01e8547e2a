"""Stage 3: entries for a device's config, proposed with a reason. Each is made, linted and compared before anybody sees
it, and a person merges it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from selector.agents.budget import Meter
from selector.agents.check import in_log
from selector.agents.desk import Desk, data
from selector.agents.mind import Mind, Question
from selector.agents.prompts import CONFIGS
from selector.agents.records import Journal, Line, Unanswered
from selector.agents.scrub import cut
from selector.agents.sheets import ConfigLine, ConfigSheet, known_only
from selector.configs import Capability, ConfigSource, ReuseConfigs
from selector.errors import ConfigError
from selector.model import Mode, Stage, TestId
from selector.plan.patch import ConfigEdit, patch
from selector.plan.proposals import Proposal
from selector.plan.validate import unified, validate
from selector.verify.faults import environment_fault

TESTS = 15
LOG = 2_500
UNTIL_DAYS = 90


@dataclass(frozen=True, slots=True)
class Device:
    """A device's configs as text and as read, and its sheet."""

    texts: Sequence[ConfigSource]
    configs: ReuseConfigs
    sheet: Capability


def propose_edits(
    failing: Mapping[TestId, str], device: Device, today: date, mind: Mind, desk: Desk, meter: Meter, journal: Journal
) -> list[Proposal]:
    """Proposals, each with its patch as the last piece of its evidence, for tests that fail on trunk for no reason that
    rules know. ``failing``: their messages and logs. What an environment spoilt is not asked about."""
    asked = {t: log for t, log in sorted(failing.items()) if environment_fault(log) is None}
    shown = dict(list(asked.items())[:TESTS])
    if not shown:
        return []
    used = meter.used()
    desk.again()
    desk.logs = {str(test): log for test, log in shown.items()}
    logs = "\n\n".join(f"{test}\n{cut(log, LOG)}" for test, log in shown.items())
    sheet = known_only(ConfigSheet, ConfigLine, "test", [str(test) for test in shown])
    tools = ("show_log", "show_device", "read_source", "show_history")
    question = Question(CONFIGS, f"The failures:\n{data(desk.scrub(logs))}", sheet, desk, tools, desk.show_device)
    try:
        reply = mind.ask(question, meter)
    except Unanswered as exc:
        journal.unanswered(Stage.PLAN, "model", mind.name, exc, meter.since(used))
        return []
    by_name = {str(test): test for test in shown}
    taken: dict[str, Proposal] = {}
    told: list[Line] = []
    refused: list[Line] = []
    for line in reply.sheet.lines:
        problem = _problem(line, by_name, taken, shown, desk)
        if problem:
            refused.append(Line(line.test, line.mode, *problem))
            continue
        test = by_name[line.test]
        until = (today + timedelta(days=UNTIL_DAYS)).isoformat()
        evidence = f"a model read in the log: {' '.join(line.quote.text.split())[:200]}"
        edit = ConfigEdit(test, Mode(line.mode.value), line.reason, evidence, until=until)
        made, wrong = _made(device, edit, today)
        if wrong:
            refused.append(Line(line.test, line.mode, wrong, "agent-edit-impossible"))
            continue
        taken[line.test] = Proposal("agent", line.test, line.reason, (evidence, made), edit, until)
        told.append(Line(line.test, line.mode, line.reason))
    journal.add(
        Stage.PLAN,
        "model",
        mind.name,
        "agent-answered",
        f"{len(shown)} failing tests, an entry for {len(taken)}",
        meter.since(used),
        told,
        refused,
        reply.transcript,
        reply.abilities,
    )
    return list(taken.values())


def _problem(
    line: ConfigLine,
    known: Mapping[str, TestId],
    taken: Mapping[str, object],
    logs: Mapping[TestId, str],
    desk: Desk,
) -> tuple[str, str] | None:
    """(reason, code) of a line that cannot be taken as it stands."""
    test = known.get(line.test)
    if test is None:
        return "it was not asked about", "agent-unknown-id"
    if line.test in taken:
        return "answered twice", "agent-twice"
    if in_log(line.quote, desk.scrub(logs[test]), "log") is None:
        return line.reason, "agent-quote-not-found"
    if environment_fault(line.quote.text) is not None:
        return line.reason, "agent-environment-fault"
    return None


def _made(device: Device, edit: ConfigEdit, today: date) -> tuple[str, str]:
    """(the patch, '') or ('', why it is refused)."""
    name = device.configs.rule(edit.test).source.rpartition(":")[0]
    first = name or device.configs.suites[0].source
    try:
        after = [patch(one, [edit]) if one.name == first else one for one in device.texts]
        wrong = validate(device.texts, after, [edit], device.sheet, today)
    except ConfigError as exc:
        return "", str(exc)
    return (unified(device.texts, after), "") if not wrong else ("", "; ".join(wrong))
