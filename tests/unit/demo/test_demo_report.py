"""``--once`` fails for every step that did not happen: right facts give no problem, each wrong one gives its own."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.demo import report
from relay.demo.report import GITHUB_REPO, WORKERS_REPO, Facts
from relay.demo.upstream import EXPECT, REFS, DemoUpstream

HEAD, BASE = "a" * 40, "b" * 40
UPSTREAM = DemoUpstream(Path("unused"), BASE, HEAD, {"number": 7}, EXPECT)


def cause(kind: str, tests: frozenset[str], keys: frozenset[str]) -> dict[str, Any]:
    named = [
        {"test": t, "keys": [{"key": k, "outcome": "failed"} for k in keys if k.startswith(t + "_")]} for t in tests
    ]
    return {
        "kind": kind,
        "message": "m",
        "changes": ["test/ladder_operands.py:weights_like"],
        "why_selected": ["reaches a changed helper"],
        "variants": 1,
        "tests": named,
    }


def run(repo: str, executor: str, level: str, conclusion: str) -> dict[str, Any]:
    return {
        "downstream": repo,
        "executor": executor,
        "level": level,
        "state": "completed",
        "conclusion": conclusion,
        "head_sha": HEAD,
        "summary": "sentence",
        "error": None,
        "created_at": 100.1,
        "selected_at": 101.0,
        "started_at": 101.5,
        "ran_at": 105.0,
        "closed_at": 107.0,
        "counts": {"planned": 12, "variants_done": 44, "failing": 8},
        "shards": [{"side": "head"}],
    }


def hud(repo: str, level: str, status: str) -> dict[str, Any]:
    started = status == "in_progress"
    metrics = {"queue_time": 1.0 if started else None, "execution_time": None if started else 4.0}
    workflow = {"status": status, "conclusion": None if started else "success", "name": "w", "job_name": "j"}
    return {
        "trusted": {"verified_repo": repo, "downstream_repo_level": level, "ci_metrics": metrics},
        "untrusted": {"callback_payload": {"delivery_id": "guid", "payload": {"number": 7}, "workflow": workflow}},
    }


def right() -> Facts:
    answer = {"status_code": 202, "status": "OK", "duration": 0.01, "guid": "guid", "response": {}}
    passed = [{"test": t, "outcome": "passed", "kernels": 3} for t in EXPECT.passing]
    failed = [{"test": t, "outcome": "failed", "kernels": 3} for t in EXPECT.regressions]
    rows = [
        (repo, lv, st)
        for repo, lv in ((WORKERS_REPO, "L4"), (GITHUB_REPO, "L2"))
        for st in ("in_progress", "completed")
    ]
    check = {
        "name": f"crcr/{WORKERS_REPO}/spyre-emulator/selected-tests",
        "status": "completed",
        "conclusion": "failure",
        "head_sha": HEAD,
        "repo": "pytorch/pytorch",
    }
    return Facts(
        UPSTREAM,
        100.0,
        [dict(answer) for _ in range(3)],
        pr={"dispatches": [run(WORKERS_REPO, "workers", "L4", "failure"), run(GITHUB_REPO, "github", "L2", "success")]},
        runs={
            WORKERS_REPO: {
                "plan": {"runtime": {"kind": "overlay", "files": [REFS]}},
                "causes": {
                    "groups": [
                        cause("regression", EXPECT.regressions, EXPECT.regressed_variants),
                        cause("pre-existing", EXPECT.pre_existing, frozenset()),
                    ]
                },
                "not_exercised": {"total": 0, "rows": []},
            }
        },
        results=passed + failed,
        triage=[{"subject": t, "verdict": "irrelevant"} for t in EXPECT.irrelevant],
        github={
            "check_runs": [check],
            "dispatches": [{"repo": GITHUB_REPO, "key": "k", "count": 1}],
            "callbacks": [
                {"repo": GITHUB_REPO, "status": s, "attempt": 1, "http": 200, "at": 102.0}
                for s in ("in_progress", "completed")
            ],
            "hud": [hud(*row) for row in rows],
            "hud_rows": {f"{repo}/guid/w/j/1": {} for repo in (WORKERS_REPO, GITHUB_REPO)},
        },
        calls=[{"n": 1, "at": 100.2, "method": "POST", "path": "/x", "status": 204, "body": None}],
    )


def test_the_right_facts_have_no_problem() -> None:
    assert report.problems(right()) == []
    assert report.finished(right())


Break = Callable[[Facts], Any]
WRONG: dict[str, tuple[Break, str]] = {
    "refused webhook": (lambda f: f.answers[1].update(status_code=500), "answered 500"),
    "a run missing": (lambda f: f.pr["dispatches"].pop(), f"{GITHUB_REPO} has 0 runs"),
    "a run twice": (lambda f: f.pr["dispatches"].append(f.pr["dispatches"][0]), f"{WORKERS_REPO} has 2 runs"),
    "a run superseded": (lambda f: f.pr["dispatches"][0].update(state="superseded"), "is superseded"),
    "another commit": (lambda f: f.pr["dispatches"][1].update(head_sha=BASE), "not the PR's head"),
    "a green verdict": (lambda f: f.pr["dispatches"][0].update(conclusion="success"), "the verdict is success"),
    "tests only": (lambda f: f.runs[WORKERS_REPO]["plan"]["runtime"].update(kind="tests-only"), "not an overlay"),
    "a regression unnamed": (lambda f: groups(f)[0]["tests"].pop(), "tests named as regression: missing"),
    "a variant too many": (
        lambda f: groups(f)[0]["tests"][0]["keys"].append({"key": "x::Y::z"}),
        "variants named as regression: unexpected x::Y::z",
    ),
    "old faults unnamed": (lambda f: groups(f).pop(1), "tests named as pre-existing: missing"),
    "infrastructure": (lambda f: groups(f)[1].update(kind="infrastructure"), "infrastructure"),
    "no change named": (lambda f: groups(f)[0].update(changes=[]), "which change it comes from"),
    "no reason": (lambda f: groups(f)[0].update(why_selected=[]), "why it was selected"),
    "not exercised": (lambda f: f.runs[WORKERS_REPO]["not_exercised"].update(total=1), "not exercised"),
    "passing test not run": (lambda f: f.results.pop(0), "was to be selected and to pass"),
    "untouched test ran": (
        lambda f: f.results.append({"test": min(EXPECT.untouched), "outcome": "passed", "kernels": 1}),
        "the change does not reach it",
    ),
    "nothing triaged": (lambda f: f.triage.clear(), "called irrelevant"),
    "no kernels": (lambda f: f.results[0].update(kernels=None), "no kernel count"),
    "dispatch twice": (lambda f: f.github["dispatches"][0].update(count=2), "one dispatch, once"),
    "no dispatch": (lambda f: f.github["dispatches"].clear(), "one dispatch, once"),
    "callback refused": (lambda f: f.github["callbacks"][1].update(http=400), "no completed callback"),
    "ci's word lost": (lambda f: f.pr["dispatches"][1].update(conclusion="failure"), "reported success"),
    "no check run": (lambda f: f.github["check_runs"].clear(), "0 check runs"),
    "two check runs": (lambda f: f.github["check_runs"].append(f.github["check_runs"][0]), "2 check runs"),
    "open check run": (lambda f: f.github["check_runs"][0].update(status="in_progress"), "not completed, failure"),
    "check on the base": (lambda f: f.github["check_runs"][0].update(head_sha=BASE), "not on the PR's head"),
    "check run for L2": (
        lambda f: f.github["check_runs"].append({**f.github["check_runs"][0], "name": f"crcr/{GITHUB_REPO}/w/j"}),
        "is at level L2",
    ),
    "hud row lost": (lambda f: f.github["hud"].pop(), f"no HUD row {GITHUB_REPO} completed"),
    "hud level": (lambda f: f.github["hud"][0]["trusted"].update(downstream_repo_level="L2"), "level L2"),
    "hud metric": (
        lambda f: f.github["hud"][1]["trusted"]["ci_metrics"].update(execution_time=None),
        "execution_time must",
    ),
    "hud delivery": (lambda f: payload(f, 0).update(delivery_id="other"), "delivery other"),
    "hud conclusion": (lambda f: payload(f, 1)["workflow"].update(conclusion=None), "without a conclusion"),
    "hud two keys": (
        lambda f: f.github["hud_rows"].update({f"{WORKERS_REPO}/guid/w/j/2": {}}),
        "its start and its end have different keys",
    ),
    "a call failed": (lambda f: f.calls[0].update(status=422), "answered 422 to POST /x"),
}


def groups(facts: Facts) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = facts.runs[WORKERS_REPO]["causes"]["groups"]
    return found


def payload(facts: Facts, index: int) -> dict[str, Any]:
    found: dict[str, Any] = facts.github["hud"][index]["untrusted"]["callback_payload"]
    return found


@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_fact_is_named(name: str) -> None:
    facts = copy.deepcopy(right())
    wrong, sentence = WRONG[name]
    wrong(facts)
    assert sentence in "\n".join(report.problems(facts))


def test_nothing_known_is_not_finished_and_not_right() -> None:
    facts = Facts(UPSTREAM, 100.0, [])
    assert not report.finished(facts)
    assert len(report.problems(facts)) > 5


def test_an_open_run_or_a_missing_row_is_not_finished() -> None:
    facts = right()
    facts.pr["dispatches"][0]["state"] = "confirming"
    assert not report.finished(facts)
    facts = right()
    facts.github["hud"].pop()
    assert not report.finished(facts)


def test_the_timeline_is_in_order_and_counts_from_the_webhook() -> None:
    lines = report.timeline(right())
    assert [after for after, _ in lines] == sorted(after for after, _ in lines)
    assert lines[0] == (pytest.approx(0.01), "delivery acknowledged (202)")
    assert any("12 tests selected, 1 shards" in text for _, text in lines)
    assert any("verdict failure" in text for _, text in lines)
