"""/crcr and a backend's grid: what counts, what does not, and the views of it that an address can ask for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from relay.store.schema import hud_row

ACME = "acme/accelerator"


def run(world: Any, k: int, conclusion: str | None, **values: Any) -> str:
    row = {
        "downstream": ACME, "executor": "github", "device": None, "level": "L2", "head_sha": f"{k:040x}",
        "pr_number": 171000 + k, "created_at": world.now - 3600 * (k + 1), "closed_at": world.now - 3600 * k,
        "conclusion": conclusion, **values,
    }  # fmt: skip
    return str(world.dispatch("superseded" if conclusion is None else "completed", **row))


def summary(client: Any, **query: Any) -> dict[str, Any]:
    client.app.state.crcr_summaries.forget()  # no page is as old as the test before
    return {one["repo"]: one for one in client.get("/crcr.json", params=query).json()["backends"]}


def test_of_each_job_the_newest_attempt_counts_and_superseded_runs_do_not(client: Any, world: Any) -> None:
    one = run(world, 0, "success")
    world.job(one, "unit", "completed", "failure", run_id="9", attempt=1)
    world.job(one, "unit", "completed", "success", run_id="9", attempt=2)
    world.job(one, "unit", "completed", "failure", run_id="8", attempt=5)
    world.job(one, "lint", "completed", "cancelled")
    two = run(world, 1, None)
    world.job(two, "unit", "completed", "failure")
    found = summary(client)[ACME]
    assert (found["total"], found["conclusions"], found["pass_rate"]) == (2, {"success": 1, "cancelled": 1}, 1.0)
    assert (found["level"], found["mean_queue_s"], found["mean_s"]) == ("L2", 10.0, 40.0)
    assert sum(part["good"] for part in found["spark"]) == 1
    assert [mark["id"] for mark in found["marks"]] == [one]


def test_of_a_commit_that_was_run_again_the_last_run_counts(client: Any, world: Any) -> None:
    first = run(world, 0, "failure")
    world.job(first, "unit", "completed", "failure")
    again = run(world, 0, "success", rerun_of=first, created_at=world.now - 60)
    world.job(again, "unit", "completed", "success")
    assert summary(client)[ACME]["conclusions"] == {"success": 1}
    grid = client.get(f"/crcr/{ACME}.json").json()
    assert [commit["jobs"]["CI / unit"]["conclusion"] for commit in grid["commits"]] == ["success"]


def test_rows_of_other_relays_count_and_rows_about_our_own_runs_count_once(client: Any, world: Any) -> None:
    delivery = world.delivery()
    one = run(world, 0, "success", delivery_id=delivery)
    world.job(one, "unit", "completed", "success")
    row = {
        "level": "L3", "event": "pull_request", "upstream": "pytorch/pytorch", "pr_number": 7, "head_sha": "b" * 40,
        "workflow": "CI", "job": "unit", "run_id": "1", "attempt": 1, "check_run_id": "1", "status": "completed",
        "queue_s": 3.0, "execution_s": 9.0, "body": {}, "created_at": world.now - 50, "updated_at": world.now,
    }  # fmt: skip
    world.put(
        hud_row,
        {**row, "key": "a", "repo": ACME, "repo_key": ACME, "delivery_id": delivery, "conclusion": "success"},
        {**row, "key": "b", "repo": "Org/Two", "repo_key": "org/two", "delivery_id": "x", "conclusion": "failure"},
        {**row, "key": "c", "repo": "Org/Two", "repo_key": "org/two", "delivery_id": "x", "conclusion": "success",
         "attempt": 2},
    )  # fmt: skip
    found = summary(client)
    assert found[ACME]["total"] == 1
    assert (found["Org/Two"]["conclusions"], found["Org/Two"]["level"]) == ({"success": 1}, "L3")
    assert client.get("/crcr/org/two.json").json()["commits"][0]["jobs"]["CI / unit"]["attempt"] == 2


@pytest.fixture
def grid(client: Any, world: Any) -> Any:
    for k in range(3):
        id = run(world, k, "failure" if k == 1 else "success")
        for name in ("unit", "ops", "lint"):
            bad = name == "ops" and k == 1
            world.job(
                id, name, "completed", "failure" if bad else "success", workflow="Fast" if name == "lint" else "CI"
            )
    return lambda query="": client.get(f"/crcr/{ACME}.json{query}").json()


def test_a_grid_is_keyed_by_commit_workflow_and_job(grid: Any) -> None:
    found = grid()
    assert found["jobs"] == ["CI / ops", "CI / unit", "Fast / lint"]
    assert [commit["pr"] for commit in found["commits"]] == [171000, 171001, 171002]
    assert found["commits"][1]["jobs"]["CI / ops"]["conclusion"] == "failure"


@pytest.mark.parametrize(
    ("query", "jobs", "commits"),
    [
        ("?find=LINT", ["Fast / lint"], 3),
        ("?only=failing", ["CI / ops"], 1),
        ("?group=workflow", ["CI", "Fast"], 3),
        ("?pin=Fast / lint&pin=gone", ["Fast / lint", "CI / ops", "CI / unit"], 3),
        ("?event=push", [], 0),
        ("?find=nothing", [], 3),
    ],
)
def test_a_grid_is_filtered_grouped_and_pinned_by_its_address(
    grid: Any, client: Any, query: str, jobs: list[str], commits: int
) -> None:
    found = grid(query)
    assert (found["jobs"], len(found["commits"])) == (jobs, commits)
    page = client.get(f"/crcr/{ACME}{query}")
    assert page.status_code == 200
    if not jobs:
        assert "Nothing fits this filter" in page.text


def test_a_group_says_the_worst_of_its_jobs_and_how_many_passed(grid: Any) -> None:
    cell = grid("?group=workflow")["commits"][1]["jobs"]["CI"]
    assert (cell["conclusion"], cell["passed"], cell["jobs"]) == ("failure", 1, 2)


def test_a_wrong_view_is_refused_with_the_mend(grid: Any, client: Any) -> None:
    for query in ("only=red", "group=job", "days=0"):
        assert client.get(f"/crcr/{ACME}.json?{query}").status_code == 400, query


def test_what_others_wrote_stays_text_and_only_https_is_a_link(client: Any, world: Any) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    id = run(world, 0, "failure", summary=evil)
    world.job(id, evil, "completed", evil, workflow=evil, url="javascript:alert(1)")
    for path in ("/crcr", f"/crcr/{ACME}", f"/crcr/{ACME}?find={evil}", f"/crcr/{ACME}?pin={evil}", f"/run/{id}"):
        page = client.get(path).text
        assert "<script>alert" not in page, path
        assert "<img" not in page, path
        assert "javascript:" not in page, path


def test_many_backends_are_pictures_with_words(client: Any, world: Any) -> None:
    for n in range(32):
        id = run(world, 0, "failure" if n == 3 else "success", downstream=f"org/backend-{n:02}")
        world.job(id, "unit", "completed", "success")
    page = client.get("/crcr").text
    assert page.count('<svg class="strip"') == 32
    assert 'aria-label="Newest runs of org/backend-03, oldest first: failure"' in page
    status = client.get("/").text
    assert "and 20 more backends, none of which fails" in status
    tiles = re.findall(r'<a class="tile (\w+)" href="/crcr/([\w/-]+)" title="([^"]*)"></a>', status)
    assert tiles[0] == ("bad", "org/backend-03", "org/backend-03: failure"), "what fails comes first"
    assert [look for look, _, _ in tiles[1:]] == ["good"] * 31, "each of them is a tile"
    assert len(re.findall(r'<td class="name">', status)) == 12


def test_what_has_failed_the_longest_comes_first(client: Any, world: Any) -> None:
    """Rows are counted to their beginning, though lists show ten marks each."""
    hours_ago = {
        "org/long": (250, ["success"] + ["failure"] * 14),
        "org/short": (100, ["success"] * 12 + ["failure"] * 2),
        "org/never": (300, ["failure"] * 11),
        "org/mended": (320, ["failure"] * 3 + ["success"]),
        "org/shaky": (310, ["failure", "neutral"]),  # one failure, and nothing since that says it is fine or not
    }
    for repo, (first, ended) in hours_ago.items():
        for n, word in enumerate(ended):
            made = run(world, first - n, word, downstream=repo)
            world.job(made, "unit", "completed", word)
    client.app.state.crcr_summaries.forget()
    for address, name in (("/index.json", "downstream"), ("/crcr.json", "repo")):
        found = client.get(address).json()["backends"]
        rows = {one[name]: one["streak"] for one in found}
        assert [one[name] for one in found if one["fails"]] == ["org/never", "org/long", "org/short"]
        assert (rows["org/long"]["runs"], rows["org/long"]["pulls"], rows["org/long"]["more"]) == (14, 14, False)
        assert (rows["org/never"]["runs"], rows["org/never"]["more"]) == (11, True), "nobody knows what was before"
        assert rows["org/mended"] is None
        assert rows["org/shaky"]["runs"] == 1
    page = client.get("/crcr/org/long.json").json()
    assert (page["streak"]["runs"], page["fails"], len(page["marks"])) == (14, True, 10)


def test_the_list_of_backends_is_filtered(client: Any, world: Any) -> None:
    for n, (level, word) in enumerate((("L2", "success"), ("L3", "failure"), ("L3", "success"))):
        made = run(world, 10 * n, word, downstream=f"org/back-{n}", level=level)
        world.job(made, "unit", "completed", word)
    client.app.state.crcr_summaries.forget()
    wanted = {"find=BACK-1": [1], "level=L3": [1, 2], "only=failing": [1], "level=L2&only=failing": []}
    for query, kept in wanted.items():
        found = client.get(f"/crcr.json?{query}").json()
        assert [one["repo"] for one in found["backends"]] == [f"org/back-{n}" for n in kept], query
        assert (found["known"], found["failing"]) == (3, 1), "of all, whatever is shown"
    assert "No backend fits this filter" in client.get("/crcr?level=L2&only=failing").text
    assert client.get("/crcr?only=broken").status_code == 400
    assert client.get("/crcr?level=L9").status_code == 400
