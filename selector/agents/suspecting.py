"""Stage 1: which tests may show a fault in a file that no rule maps? Only ever more tests, or another order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from selector.agents.budget import Meter
from selector.agents.check import quoted
from selector.agents.desk import CHARACTERS, Desk, data, difference
from selector.agents.mind import Mind, Question
from selector.agents.port import Suspect
from selector.agents.prompts import SUSPECTS
from selector.agents.records import Journal, Line, Unanswered
from selector.agents.scrub import cut
from selector.agents.sheets import SuspectSheet
from selector.discover import Discovery
from selector.model import Change, Stage, TestId

FILES = 5
TEST_FILES = 400
TOOLS = ("read_source", "find_tests", "show_change")


@dataclass
class Suspecting:
    mind: Mind
    desk: Desk
    meter: Meter
    journal: Journal

    def suspects(self, found: Discovery, change: Change) -> list[Suspect]:
        """Those that were taken, in the model's order; none where it did not answer."""
        paths = _unmapped(found)
        if not paths:
            return []
        used = self.meter.used()
        self.desk.again()
        prompt, names = self._prompt(paths, change), partial(self._at_hand, found)
        question = Question(SUSPECTS, prompt, SuspectSheet, self.desk, TOOLS, names)
        try:
            reply = self.mind.ask(question, self.meter)
        except Unanswered as exc:
            self.journal.unanswered(Stage.DISCOVER, "model", self.mind.name, exc, self.meter.since(used))
            return []
        taken: dict[TestId, Suspect] = {}
        refused: list[Line] = []
        for line in reply.sheet.lines:
            test = _parsed(line.test)
            fact = quoted(line.quote, self.desk, "model")
            if test is None or found.inventory.find(test) is None:
                refused.append(Line(line.test, "suspect", "there is no such test", "agent-unknown-id"))
            elif test in taken:
                refused.append(Line(line.test, "suspect", "named twice", "agent-twice"))
            elif fact is None:
                refused.append(Line(line.test, "suspect", line.reason, "agent-quote-not-found"))
            else:
                taken[test] = Suspect(test, f"a model suspects it: {line.reason}", (fact,))
        self.journal.add(
            Stage.DISCOVER,
            "model",
            self.mind.name,
            "agent-answered",
            f"{len(paths)} changed files that no rule maps, {len(taken)} tests named",
            self.meter.since(used),
            [Line(str(one.test), "suspect", one.reason) for one in taken.values()],
            refused,
            reply.transcript,
            reply.abilities,
        )
        return list(taken.values())

    def _prompt(self, paths: list[str], change: Change) -> str:
        scrub = self.desk.scrub
        files = {file.path: file for file in change.files}
        shown = [difference(files[path], scrub, CHARACTERS // 2) for path in paths[:FILES] if path in files]
        self.desk.seen.update(paths[:FILES])
        more = (
            f"\nand {len(paths) - FILES} more files: {' '.join(paths[FILES : FILES + 20])}"
            if len(paths) > FILES
            else ""
        )
        title = cut(scrub(f"{change.title}\n{change.body}"), 1500)
        parts = "\n\n".join(shown)
        return f"What its author says of the change:\n{data(title)}\n\nFiles:\n{data(parts + scrub(more))}"

    def _at_hand(self, found: Discovery) -> str:
        """For a model without tools: the names that there are, as many as fit."""
        files = [path for path in sorted(found.inventory.files) if path.startswith("test/")][:TEST_FILES]
        tests = [str(impact.test) for impact in found.impacts[:200]]
        return f"Test files:\n{data(chr(10).join(files))}\n\nTests:\n{data(chr(10).join(tests))}"


def _unmapped(found: Discovery) -> list[str]:
    """The changed paths of which stage 1 says that it cannot name every test they reach."""
    paths = [d.subject for d in found.decisions if d.verdict == "widened" and d.subject != "change"]
    return list(dict.fromkeys(paths))


def _parsed(text: str) -> TestId | None:
    try:
        return TestId.parse(text)
    except ValueError:
        return None
