"""Pushes one after the other, and labels that come and go, one scenario a fault."""

from __future__ import annotations

from outbound_relay import LABEL, NAMES, ON_BOTH, UPSTREAM, A, B, C, pull_request, running


def test_a_push_is_shown_on_its_own_commit(relay):
    body = {
        "ref": "refs/heads/main", "before": A, "after": C, "created": False, "deleted": False, "forced": False,
        "repository": {"id": 65600975, "full_name": UPSTREAM}, "pusher": {"name": "ann"}, "sender": {"login": "ann"},
    }  # fmt: skip
    event = relay.webhook("push", body)
    relay.turn()
    (check,) = relay.checks()
    assert (check["name"], check["head_sha"], check["status"]) == ("crcr/org/four/relay/response", C, "queued")
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    shown = {check["name"]: (check["head_sha"], check["conclusion"], check["external_id"]) for check in relay.checks()}
    assert shown["crcr/org/four/ci/tests"] == (C, "failure", "55")
    assert relay.comments() == []  # there is no pull request to say it at


def test_a_run_of_our_workers_at_level_4_is_seen_before_anything_is_selected(tmp_path):
    with running(tmp_path, "L4:\n  - org/lab:\n      executor: workers\n      device: spyre\n") as relay:
        relay.push()
        relay.turn()
        (check,) = relay.checks()
        assert (check["name"], check["status"]) == ("crcr/org/lab/spyre-emulator/selected-tests", "queued")


def test_a_storm_of_pushes_is_told_twice_and_not_five_times(relay):
    relay.push()
    relay.turn()
    for number in range(5):
        relay.ahead += 1
        relay.push("synchronize", sha=f"{number:x}" * 40)
        relay.turn()
    assert len([c for c in relay.world.calls("POST", "/dispatches") if "/org/two/" in c["path"]]) == 1
    relay.wait(10)
    posts = [c for c in relay.world.calls("POST", "/dispatches") if "/org/two/" in c["path"]]
    assert [c["body"]["client_payload"]["payload"]["pull_request"]["head"]["sha"] for c in posts] == [A, "4" * 40]
    states = [(c["head_sha"][:1], c["status"], c["conclusion"]) for c in relay.checks("/response")]
    assert states == [("a", "completed", "cancelled"), ("4", "queued", None)]


def test_what_runs_for_a_superseded_commit_is_cancelled_also_when_it_is_heard_of_later(relay):
    first = relay.push()
    relay.turn()
    for number, repo in ((55, "org/four"), (56, "org/two")):
        relay.world.hub.ledger.runs[number] = {
            "id": number, "repo": repo, "event": "x", "status": "in_progress", "conclusion": None,
        }  # fmt: skip
    relay.report(first, "in_progress", repo="org/four")
    relay.turn()
    relay.ahead += 20
    relay.push("synchronize", sha=B)
    relay.turn()
    assert relay.world.hub.ledger.runs[55]["conclusion"] == "cancelled"
    relay.report(first, "in_progress", repo="org/two", run_id="56")
    relay.turn()
    assert relay.world.hub.ledger.runs[56]["conclusion"] == "cancelled"
    relay.report(first, "completed", "failure", repo="org/four")
    relay.turn()
    assert relay.comments() == []  # nobody is called about a commit that has a successor


@ON_BOTH
def test_a_label_shows_and_hides_a_level_3_result_at_any_point(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "in_progress", repo="org/three")
    relay.turn()
    assert relay.checks("org/three/ci/tests") == []
    relay.webhook("pull_request", pull_request("labeled", A, (LABEL,), label={"name": LABEL}))
    relay.turn()
    (check,) = relay.checks("org/three/ci/tests")
    assert check["status"] == "in_progress"
    relay.webhook("pull_request", pull_request("unlabeled", A, (), label={"name": LABEL}))
    relay.turn()
    (check,) = relay.checks("org/three/ci/tests")
    assert (check["conclusion"], check["output"]["title"]) == ("neutral", "No longer shown")
    relay.report(event, "completed", "failure", repo="org/three", test_results={"passed": 3, "failed": 1, "skipped": 0})
    relay.turn()
    assert relay.checks("org/three/ci/tests")[0]["conclusion"] == "neutral"
    relay.webhook("pull_request", pull_request("labeled", A, (LABEL,), label={"name": LABEL}))
    relay.turn()
    (check,) = relay.checks("org/three/ci/tests")
    assert check["conclusion"] == "failure"
    assert "3 passed, 1 failed" in check["output"]["summary"]
    assert len(relay.world.calls("POST", "/check-runs")) == 2  # this one, and level 4's that waits
    assert relay.comments() == []


def test_a_label_that_comes_after_the_end_backfills_every_job(relay):
    event = relay.push()
    relay.turn()
    for number, name in enumerate(("x", "y", "z"), 60):
        relay.report(event, "completed", "success", repo="org/three", job_name=name, run_id=str(number))
    relay.turn()
    relay.webhook("pull_request", pull_request("labeled", A, (LABEL,), label={"name": LABEL}))
    relay.turn()
    shown = {check["name"]: check["conclusion"] for check in relay.checks() if "org/three" in check["name"]}
    assert shown == {f"crcr/org/three/ci/{name}": "success" for name in "xyz"}


def test_any_name_survives_from_start_to_end_and_through_a_deadline(relay):
    event = relay.push()
    relay.turn()
    for number, name in enumerate(NAMES, 60):
        relay.report(event, "in_progress", repo="org/four", job_name=name, name=name, run_id=str(number))
    relay.turn()
    names = {f"crcr/org/four/{name}/{name}" for name in NAMES if len(name) < 300}
    (cut,) = {check["name"] for check in relay.checks()} - {*names, "crcr/org/four/relay/response"}
    assert len(cut) == 255
    names.add(cut)
    assert names <= {check["name"] for check in relay.checks()}
    assert not any("@org/team" in check["output"]["summary"] for check in relay.checks())
    relay.wait(25 * 3600)
    ended = {check["name"] for check in relay.checks() if check["conclusion"] == "timed_out"}
    assert ended == names
    rows = relay.world.hub.hud.rows.values()
    assert {(row["job_name"], row["conclusion"]) for row in rows} == {(name, "timed_out") for name in NAMES}
