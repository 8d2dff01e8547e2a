"""The situations that a verdict must tell apart, each as a change to a small upstream, with what must come out.

``play(lab, situation)`` runs one on the emulated device. ``tests/bench/situations.py`` plays all and prints the table,
``tests/integration/test_situations.py`` a sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from situation_lab import Lab, Worker, module
from sqlalchemy import Row, insert

from relay.services import trunk_runs
from relay.store.schema import quarantine
from selector.verify.flakes import RULE
from selector.verify.judgements import JUDGEMENTS

N = RULE.first
PASSES = "def test_fine(self, device):\n    self.assertEqual(torch.ones(2, device=device).sum().cpu().item(), 2.0)\n"
OK = PASSES.replace("test_fine", "test_other")
VALUE = """
def test_value(self, device):
    x = torch.full((3,), weight(), device=device)
    self.assertEqual((x + x).cpu(), torch.full((3,), 4.0))
"""
GOOD, BAD = "def weight():\n    return 2.0\n", "def weight():\n    return 3.0\n"
FLAKE = """
@dtypes(torch.float32, torch.float16, torch.int64, torch.int32)
def test_flake_{n}(self, device, dtype):
    x = torch.ones(2, device=device, dtype=dtype)
    lost = int.from_bytes(os.urandom(4), "big") < {rate} * 2**32
    self.assertFalse(lost, "lost a race")
    self.assertEqual(x.cpu(), torch.ones(2, dtype=dtype))
"""
COMPANY = """
def test_a_leaves_something(self, device):
    self.assertEqual(len(left), 0)
    left.append(torch.ones(1, device=device).cpu())

def test_b_minds(self, device):
    self.assertEqual(len(left), 0)
    left.append(torch.ones(1, device=device).cpu())
"""
MANY_FILES = """
def test_many_files(self, device):
    kept = [open(os.devnull) for _ in range(400)]
    self.assertEqual(torch.ones(2, device=device).cpu(), torch.ones(2))
    for one in kept:
        one.close()
"""
SKIPS = """
def test_skips(self, device):
    x = torch.ones(2, device=device)
    if os.urandom(1)[0] < 256:
        self.skipTest("not today")
    self.assertEqual(x.cpu(), torch.ones(2))
"""
HOST = """
def test_host(self, device):
    where = device if os.urandom(1)[0] > 255 else "cpu"
    self.assertEqual(torch.ones(2, device=where).cpu(), torch.ones(2))
"""
LIMIT = """
def test_reach(self, device):
    x = torch.ones(2, device=device)
    x = {0}
    self.assertEqual(x.cpu().sum().item(), x.cpu().sum().item())

"""
LACKS = "torch.cholesky_inverse(torch.ones(2, 2, device=device))"
FORTY = "".join(PASSES.replace("fine", f"f{n}") for n in range(40))
NATIVE = "test/cpp/api/situations.cpp"
NATIVE_CODE = "int situations() { return 0; }\n"
NAMES_IT = "# what it checks is written in situations.cpp\n"


def flakes(rate: float, tests: int) -> str:
    return "".join(FLAKE.format(n=n, rate=rate) for n in range(tests))


@dataclass(frozen=True)
class Situation:
    """``base`` and ``head``: files of the two commits; ``conclusions`` and ``codes``: what may come out (several where
    chance has a part); ``judged``: codes of failures that must be shown (where chance has a part: in some round);
    ``says``: words of the verdict or of one of its reasons; ``warns``: words of the verdict's warnings; ``before``
    prepares the lab and may change how the change is played."""

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
    settings: Mapping[str, Any] = field(default_factory=dict)


def files_of(name: str, source: str) -> dict[str, str | None]:
    return {f"test/test_{name}.py": source}


def simple(name: str, was: str, now: str, top: tuple[str, str] = ("", ""), **more: Any) -> Situation:
    """One test file, edited."""
    file, cls = more.pop("file"), more.pop("cls", "TestIt")
    touched = (0, 1) if more.pop("touch", True) else (0, 0)
    base, head = (files_of(file, module(cls, *side)) for side in zip((was, now), top, touched, strict=True))
    return Situation(name, base, head, **more)


# -------------------------------------------------------------------------------------------------------- what is known


def trunk_of(*commits: Mapping[str, str | None], repeat: int = 1) -> Callable[[Lab, str], Mapping[str, Any]]:
    """Runs the whole files of these further commits of trunk beforehand; with none, of the base."""

    def before(lab: Lab, base: str) -> Mapping[str, Any]:
        shas = [base] if not commits else [_ahead(lab, base, files) for files in commits]
        for sha in shas:
            for n in range(repeat):
                _run_trunk(lab, sha, f"history {n}", commits[0] if commits else {})
        return {}

    return before


def _ahead(lab: Lab, base: str, files: Mapping[str, str | None]) -> str:
    return lab.commit(files, base, "a later commit of trunk")


def _run_trunk(lab: Lab, sha: str, why: str, files: Mapping[str, str | None], tests: tuple[str, ...] = ()) -> None:
    crew = [lab.enrol(Worker("w1"))]
    spec = {**lab.spec(), "tests": list(tests) or lab.tests_at(sha, files), "est_seconds": 1.0}
    with lab.engine.begin() as conn:
        run = trunk_runs.request(conn, lab.settings, [spec], sha, time.time(), why=f"{why} {time.monotonic_ns()}")
    assert run is not None
    assert lab.finish(run, crew).code == "trunk-ran"


def company_known(lab: Lab, base: str) -> Mapping[str, Any]:
    """Trunk has run both tests together (the second fails) and each alone (it passes), on one commit."""
    both = tuple(f"test/test_company2.py::TestIt::{name}" for name in ("test_a_leaves_something", "test_b_minds"))
    for tests in (both, both[::-1], both[:1], both[1:]):  # whichever comes second minds
        _run_trunk(lab, base, "company", {}, tests)
    return {}


def put_into_quarantine(test: str, until_s: float) -> Callable[[Lab, str], Mapping[str, Any]]:
    def before(lab: Lab, base: str) -> Mapping[str, Any]:
        now = time.time()
        values = {"device": "spyre", "test": test, "variant": "", "reason": "loses a race", "evidence": "seen by hand"}
        with lab.engine.begin() as conn:
            conn.execute(
                insert(quarantine).values(**values, issue="example/backend#7", until=now + until_s, created_at=now)
            )
        return {}

    return before


def poisoned(lab: Lab, base: str) -> Mapping[str, Any]:
    """Before the change is played, another pull request of the same author makes the test fail and pass by turns, and
    one against a stacked base of the author's own makes its *base* fail."""
    file = "test/test_poison.py"
    flaky = {file: module("TestIt", VALUE, "def weight():\n    return 2.0 + (os.urandom(1)[0] % 2)\n")}
    broken = {file: module("TestIt", VALUE, BAD)}
    crew = [lab.enrol(Worker("w1"))]
    for _ in range(3):
        lab.play(lab.commit(flaky, base), base, crew)
    stacked = lab.commit(broken, base)
    on_top = {file: module("TestIt", VALUE + OK, BAD)}
    lab.play(lab.commit(on_top, stacked), stacked, crew, base_ref="gh/mallory/1/base")
    return {}


def base_known(lab: Lab, base: str) -> Mapping[str, Any]:
    """Another change has had the same base run for it."""
    file = "test/test_known.py"
    lab.play(lab.commit({file: module("TestIt", VALUE, "def weight():\n    return 5.0\n")}, base), base, [Worker("w1")])
    return {}


STRICT = """
        - {names: [TestIt::test_strict], mode: xfail_strict, reason: rounds}
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
