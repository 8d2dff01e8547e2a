"""The situations that a verdict must tell apart, each as a change to a small upstream, with what must come out.

``play(lab, situation)`` runs one on the emulated device. ``tests/bench/situations.py`` plays all and prints the table,
``tests/integration/test_situations.py`` a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from situation_bodies import (
    BAD,
    COMPANY,
    DRAWS,
    FORTY,
    GOOD,
    HOST,
    LACKS,
    LIMIT,
    LIMITED,
    MANY_FILES,
    NAMES_IT,
    NATIVE,
    NATIVE_CODE,
    OK,
    OPS,
    PASSES,
    SKIPS,
    VALUE,
    files_of,
    flakes,
)
from situation_known import (
    base_known,
    company_known,
    known,
    ops_known,
    poisoned,
    put_into_quarantine,
    trunk_of,
    unmerged,
)
from situation_lab import Lab, Worker, module
from sqlalchemy import Row

from selector.plan import codes as modes
from selector.verify.flakes import RULE
from selector.verify.judgements import JUDGEMENTS

N = RULE.first


@dataclass(frozen=True)
class Situation:
    """``base`` and ``head``: files of the two commits; ``conclusions`` and ``codes``: what may come out (several where
    chance has a part); ``judged``: codes of failures that must be shown (where chance has a part: in some round);
    ``says``: words of the verdict or of one of its reasons; ``warns``: words of the verdict's warnings; ``modes``: by
    which codes the plan says of some test how it is to come out, beside the rule that it has to pass (None: not looked
    at); ``before`` prepares the lab and may change how the change is played."""

    name: str
    base: Mapping[str, str | None]
    head: Mapping[str, str | None]
    conclusions: tuple[str, ...]
    codes: tuple[str, ...]
    judged: tuple[str, ...] = ()
    says: str = ""
    crew: tuple[Worker, ...] = (Worker("w1"), Worker("w2"))
    entries: str = ""
    before: Callable[[Lab, str], Mapping[str, Any]] | None = None
    chance: bool = False
    warns: str = ""
    modes: frozenset[str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def simple(name: str, was: str, now: str, top: tuple[str, str] = ("", ""), **more: Any) -> Situation:
    """One test file, edited."""
    file, cls = more.pop("file"), more.pop("cls", "TestIt")
    touched = (0, 1) if more.pop("touch", True) else (0, 0)
    base, head = (files_of(file, module(cls, *side)) for side in zip((was, now), top, touched, strict=True))
    return Situation(name, base, head, **more)


STRICT = """
        - {names: [TestIt::test_strict], mode: xfail_strict, reason: rounds}
"""
DEMANDED = """
        - {names: [TestIt::test_value], mode: mandatory_success, reason: customers need it}
"""
# the change that only breaks one lab reads what differs between the labs' workers: how many files they may open
LAB_HEAD = """
def test_lab(self, device):
    import resource
    roomy = resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 600
    self.assertTrue({condition})
    self.assertEqual(torch.ones(2, device=device).cpu(), torch.ones(2))
"""

SITUATIONS: tuple[Situation, ...] = (
    simple("a change that breaks nothing", PASSES, PASSES + OK, file="clean",
           conclusions=("success",), codes=("verify-passed",)),
    simple("an edited helper breaks a test", VALUE, VALUE, (GOOD, BAD), file="helper",
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",),
           says=f"failed {N} of {N} with the change, failed 0 of {N} without it"),
    simple("a test that crashes its process", VALUE, VALUE, (GOOD, "def weight():\n    os.abort()\n"), file="crash",
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",), says="SIGABRT"),
    simple("a test that hangs", VALUE, VALUE, (GOOD, "import time\ndef weight():\n    time.sleep(60)\n"), file="hang",
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",), says="no end after"),
    simple("a file that cannot be imported any more", PASSES, PASSES, ("", "import nothing_of_this_name\n"),
           file="imports", conclusions=("failure",), codes=("verify-import-regression",),
           judged=("verify-import-regression",)),
    simple("a new test that fails", PASSES, PASSES + PASSES.replace("fine", "new").replace("2.0", "3.0"),
           file="newtest", conclusions=("failure",), codes=("verify-new-test-fails",),
           judged=("verify-new-test-fails",)),
    simple("xfail_strict that passes now",
           "def test_strict(self, device):\n    self.assertEqual(torch.ones(1, device=device).cpu().item(), 2.0)\n",
           "def test_strict(self, device):\n    self.assertEqual(torch.ones(1, device=device).cpu().item(), 1.0)\n",
           file="strict", entries=STRICT, conclusions=("failure",), codes=("verify-xpassed-strict",),
           judged=("verify-xpassed-strict",)),
    simple("made flaky by the change, 80 %", flakes(0, 1), flakes(0.8, 1), file="made", chance=True,
           conclusions=("failure",), codes=("verify-made-flaky", "verify-regression"),
           judged=("verify-made-flaky",)),
    simple("fails without the change too", PASSES + VALUE, PASSES + VALUE + OK, (BAD, BAD), file="old",
           conclusions=("success",), codes=("verify-passed",), judged=("verify-pre-existing",),
           says="fails on the base as well"),
    simple("nothing but old failures", VALUE, VALUE, (BAD, BAD), file="onlyold",
           conclusions=("neutral",), codes=("verify-nothing-passed",), judged=("verify-pre-existing",)),
    simple("fails on the base for another reason", VALUE, VALUE,
           ("def weight():\n    if os.urandom(1)[0] < 0:\n        pass\n    raise KeyError('one thing')\n",
            "def weight():\n    raise ValueError('another thing')\n"), file="reason",
           conclusions=("neutral",), codes=("verify-nothing-passed",), judged=("verify-pre-existing",),
           says="fails without the change as well"),
    Situation("broken on trunk, the base is not known",
              files_of("trunk", module("TestIt", PASSES + VALUE, BAD + "import nothing_of_this_name\n")),
              files_of("trunk", module("TestIt", PASSES + VALUE, BAD, 1)),
              ("success",), ("verify-passed",), ("verify-broken-on-trunk",),
              "the newest 2 runs on trunk fail in the same way",
              before=trunk_of(files_of("trunk", module("TestIt", PASSES + VALUE, BAD)), repeat=2)),
    Situation("the base is not known, and trunk neither",
              files_of("unknown", module("TestIt", PASSES + VALUE, BAD + "import nothing_of_this_name\n")),
              files_of("unknown", module("TestIt", PASSES + VALUE, BAD, 1)),
              ("neutral",), ("verify-unconfirmed",), ("verify-unconfirmed",), "cannot be imported on the base"),
    simple("the base is known from another run", VALUE, VALUE, (GOOD, BAD), file="known", before=base_known,
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",)),
    simple("flaky at 50 %, with and without the change", flakes(0.5, 4) + PASSES, flakes(0.5, 4) + PASSES + OK,
           file="flake50", chance=True, conclusions=("success", "neutral"),
           codes=("verify-passed", "verify-flaky-unproven"), judged=("verify-flaky",)),
    simple("flaky at 10 %, with and without the change", flakes(0.1, 8) + PASSES, flakes(0.1, 8) + PASSES + OK,
           file="flake10", chance=True, conclusions=("success", "neutral"),
           codes=("verify-passed", "verify-flaky-unproven")),
    simple("flaky at 1 %, with and without the change", flakes(0.01, 60) + PASSES, flakes(0.01, 60) + PASSES + OK,
           file="flake1", chance=True, conclusions=("success", "neutral"),
           codes=("verify-passed", "verify-flaky-unproven")),
    simple("fails in company, passes alone; nobody vouches", COMPANY, COMPANY + OK, ("left = []\n",) * 2,
           file="company", conclusions=("neutral",), codes=("verify-flaky-unproven",),
           judged=("verify-flaky-unproven",), says="passed when it ran again"),
    simple("fails in company; trunk's own runs show it", COMPANY, COMPANY + OK, ("left = []\n",) * 2,
           file="company2", before=company_known, conclusions=("success",), codes=("verify-passed",),
           judged=("verify-flaky-on-trunk",),
           says="both passed and failed on"),
    simple("fails in company; in quarantine", COMPANY, COMPANY + OK, ("left = []\n",) * 2, file="company3",
           before=put_into_quarantine("test/test_company3.py::TestIt::test_b_minds", 3600.0),
           conclusions=("success",), codes=("verify-passed",), judged=("verify-quarantined",),
           says="in quarantine: loses a race, example/backend#7"),
    simple("fails in company; its quarantine has expired", COMPANY, COMPANY + OK, ("left = []\n",) * 2, file="company4",
           before=put_into_quarantine("test/test_company4.py::TestIt::test_b_minds", -1.0),
           conclusions=("neutral",), codes=("verify-flaky-unproven",), judged=("verify-flaky-unproven",)),
    simple("in quarantine, and broken by the change", VALUE, VALUE, (GOOD, BAD), file="quarantined",
           before=put_into_quarantine("test/test_quarantined.py::TestIt::test_value", 3600.0),
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",)),
    simple("a poisoned author: fails elsewhere, too", VALUE, VALUE, (GOOD, BAD), file="poison", before=poisoned,
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",)),
    simple("a change that prints an environment's fault", VALUE, VALUE,
           (GOOD, "def weight():\n    raise OSError(28, 'No space left on device')\n"), file="prints",
           conclusions=("neutral",), codes=("verify-infrastructure",), judged=("verify-infrastructure",)),
    simple("an environment's fault on one worker of two", MANY_FILES, MANY_FILES + OK, file="fault",
           crew=(Worker("narrow", files=300), Worker("w2")),
           conclusions=("success",), codes=("verify-passed",), says="ran again elsewhere"),
    simple("an environment's fault on every worker", MANY_FILES, MANY_FILES + OK, file="faults",
           crew=(Worker("narrow", files=300), Worker("narrow2", files=300)),
           conclusions=("neutral",), codes=("verify-infrastructure",), judged=("verify-infrastructure",)),
    simple("one worker of two cannot run anything", PASSES, PASSES + OK, file="broken1",
           crew=(Worker("broken", broken=True), Worker("w2")), conclusions=("success",), codes=("verify-passed",)),
    simple("no worker can run anything", PASSES, PASSES + OK, file="broken2",
           crew=(Worker("broken", broken=True), Worker("broken2", broken=True)),
           conclusions=("neutral",), codes=("verify-infrastructure",)),
    simple("two labs disagree", LAB_HEAD.format(condition="True"), LAB_HEAD.format(condition="roomy"), file="labs",
           crew=(Worker("a1", "lab-a", files=500), Worker("b1", "lab-b")),
           conclusions=("neutral",), codes=("verify-lab-conflict",), judged=("verify-lab-conflict",),
           says="the labs disagree"),
    simple("the change edits a test to use what the device lacks", LIMIT.format("x + x"), LIMIT.format(LACKS) + OK,
           file="limit", conclusions=("neutral",), codes=("verify-device-limit",), judged=("verify-device-limit",)),
    simple("a helper now uses what the device lacks", *[LIMIT.format("use(x, device)") + OK] * 2,
           ("def use(x, device):\n    return x + x\n", f"def use(x, device):\n    return {LACKS}\n"), file="limit2",
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",)),
    simple("a budget too small", FORTY, FORTY, file="budget", settings={"budget_minutes": 0.02}, crew=(Worker("w1"),),
           conclusions=("neutral",), codes=("verify-partial",), says="had no room in the budget"),
    simple("a budget too small for what the change edits", FORTY, FORTY.replace("2.0", "2") + OK, file="mustrun",
           settings={"budget_minutes": 0.02}, crew=(Worker("w1"),), conclusions=("success",), codes=("verify-passed",),
           says="41 tests (41 variants) ran on the device", warns="which all run; the budget is 1.2 s on 1 worker"),
    Situation("native code that the runtime does not contain",
              {**files_of("native", module("TestIt", PASSES, NAMES_IT)), NATIVE: NATIVE_CODE},
              {**files_of("native", module("TestIt", PASSES + OK, NAMES_IT)), NATIVE: NATIVE_CODE.replace("0", "1")},
              ("neutral",), ("verify-not-exercised",), says=f"1 changed file was not exercised: {NATIVE}"),
    simple("nothing touches the device", PASSES, HOST,
           file="idle", conclusions=("neutral",), codes=("verify-unengaged",)),
    simple("every test skips itself", PASSES, SKIPS,
           file="skips", conclusions=("neutral",), codes=("verify-nothing-ran",), says="skipped themselves"),
    simple("a test that is gone when the file is imported", PASSES, PASSES + OK + "del test_other\n", file="gone",
           conclusions=("neutral",), codes=("verify-incomplete",)),
    simple("nothing to run", PASSES, "def test_skips(self, device):\n    self.skipTest('not today')\n",
           file="nothing", conclusions=("neutral",), codes=("verify-nothing-to-run",)),
    simple("fails on trunk, and is known to", VALUE + PASSES, VALUE + PASSES, (BAD, BAD), file="history",
           before=known("history", VALUE + PASSES, BAD), modes=frozenset({modes.HISTORY}), conclusions=("success",),
           codes=("verify-passed",), judged=("verify-pre-existing",),
           says=f"expected by trunk's results ({modes.HISTORY})"),
    simple("fails on trunk, and the change mends it", VALUE + PASSES, VALUE + PASSES, (BAD, GOOD), file="mends",
           before=known("mends", VALUE + PASSES, BAD), modes=frozenset({modes.HISTORY}), conclusions=("success",),
           codes=("verify-passed",), says="passes: this change mends it, or trunk has since"),
    simple("known to fail on trunk, mended there since, and broken by the change", VALUE + PASSES, VALUE + PASSES,
           (GOOD, BAD), file="since", before=known("since", VALUE + PASSES, BAD), modes=frozenset({modes.HISTORY}),
           conclusions=("failure",), codes=("verify-regression",), judged=("verify-regression",),
           says="which the runs without the change do not bear out"),
    simple("fails on trunk, in too few runs to expect it", VALUE + PASSES, VALUE + PASSES, (BAD, BAD), file="few",
           before=known("few", VALUE + PASSES, BAD, commits=2), modes=frozenset({modes.DEFAULT}),
           conclusions=("success",), codes=("verify-passed",), judged=("verify-pre-existing",)),
    simple("unmerged changes failed it; nothing is expected of it", VALUE + PASSES, VALUE + PASSES, (GOOD, BAD),
           file="unmerged", before=unmerged, modes=frozenset(), conclusions=("failure",),
           codes=("verify-regression",), judged=("verify-regression",)),
    simple("a config demands what trunk fails", VALUE + PASSES, VALUE + PASSES, (BAD, BAD), file="demanded",
           entries=DEMANDED, before=known("demanded", VALUE + PASSES, BAD),
           modes=frozenset({modes.CONFIG, modes.DISPUTED}), conclusions=("success",),
           codes=("verify-passed",), judged=("verify-pre-existing",)),
    simple("trunk has met a limit of the device once", LIMITED + PASSES, LIMITED + PASSES, file="limit3",
           before=known("limit3", LIMITED + PASSES, commits=1, repeat=1), modes=frozenset({modes.LIMIT}),
           conclusions=("success",), codes=("verify-passed",), judged=("verify-pre-existing",),
           says=f"expected by what the device lacks ({modes.LIMIT})"),
    simple("an op list of which the device has nothing", DRAWS + PASSES, DRAWS + PASSES, (OPS, OPS), file="oplist",
           before=ops_known, modes=frozenset({modes.NO_OPS}), conclusions=("success",), codes=("verify-passed",),
           says="1 test (1 variant) ran on the device"),
)  # fmt: skip


def prepare(lab: Lab) -> str:
    """Writes the base of all situations as one commit and the device's config. Returns the commit."""
    files: dict[str, str | None] = {"version.txt": "2.13.0\n"}
    entries: list[str] = []
    for situation in SITUATIONS:
        files |= situation.base
        if situation.entries:
            path = next(iter(situation.base))
            entries.append(
                f"    - path: ${{TORCH_ROOT}}/{path}\n      unlisted_test_mode: mandatory_success\n"
                f"      tests:{situation.entries}"
            )
    base = lab.commit(files, message="base")
    lab.config(
        "test_suite_config:\n  extends: capability.yaml\n  files:\n"
        "    - path: ${TORCH_ROOT}/test/test_*.py\n      unlisted_test_mode: mandatory_success\n" + "".join(entries)
    )
    return base


def play(lab: Lab, base: str, situation: Situation) -> Row[Any]:
    """The run's row at its end."""
    more = dict(situation.before(lab, base)) if situation.before else {}
    if situation.settings:
        more["settings"] = lab.settings.model_copy(update=dict(situation.settings))
    return lab.play(lab.commit(situation.head, base), base, situation.crew, **more)


def problems(lab: Lab, situation: Situation, row: Row[Any]) -> list[str]:
    """What is not as it must be."""
    found = []
    if row.conclusion not in situation.conclusions or row.code not in situation.codes:
        found.append(f"{row.conclusion} ({row.code}), not {situation.conclusions} ({situation.codes}): {row.summary}")
    shown = judgements(lab, row)
    if not situation.chance and not set(situation.judged) <= shown:
        found.append(f"shows failures of {sorted(shown)}, not {situation.judged}")
    said_of_modes = lab.modes(row.id)
    if situation.modes is not None and said_of_modes != situation.modes:
        found.append(f"the plan says {sorted(said_of_modes)} of modes, not {sorted(situation.modes)}")
    warnings = (row.verdict or {}).get("warnings", ())
    if situation.warns not in " ".join(warnings):
        found.append(f"does not warn {situation.warns!r}: {warnings}")
    said = " ".join(
        [
            row.summary,
            *(d.reason for d in lab.decisions(row.id)),
            *(cause["message"] for cause in (row.verdict or {}).get("causes", ())),
        ]
    )
    if situation.says not in said:
        found.append(f"does not say {situation.says!r}: {said}")
    if lab.check(row.id) != row.conclusion:
        found.append(f"the check run says {lab.check(row.id)}")
    return found


def judgements(lab: Lab, row: Row[Any]) -> set[str]:
    """The codes by which the run's failures were judged."""
    keys = {cause["key"] for cause in (row.verdict or {}).get("causes", ())}
    return {d.code for d in lab.decisions(row.id) if d.subject in keys and d.code in JUDGEMENTS}


def reason(lab: Lab, row: Row[Any]) -> str:
    """The reason of the first failure that the verdict shows, else the verdict's own."""
    causes = (row.verdict or {}).get("causes", ())
    told = {d.subject: d.reason for d in lab.decisions(row.id)}
    elsewhere = next((d.reason for d in lab.decisions(row.id) if d.code == "verify-ran-elsewhere"), "")
    return told.get(causes[0]["key"], "") if causes else elsewhere
