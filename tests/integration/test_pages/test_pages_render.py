"""Every page over a real database: what it says, that its twin says the same, and that hostile text stays text."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from sqlalchemy import event

from relay.store.schema import dispatch
from selector.model import TestId

OTHER = "f" * 40
LOGIT = "test/test_ops.py::TestCommon::test_out"


class Reader(HTMLParser):
    """The text of a page, its links, tags, and attributes that would run something."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.quiet = 0
        self.feed(source.replace("<wbr>", ""))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "style"):
            self.quiet += 1
            if "src" not in named:
                self.inline.append(tag)
        self.inline += [name for name in named if name.startswith("on") or name == "style"]
        if tag == "a" and named.get("href"):
            self.links.append(str(named["href"]))
        if named.get("id"):
            self.ids.append(str(named["id"]))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self.quiet -= 1

    def handle_data(self, data: str) -> None:
        if not self.quiet:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def read(client: Any, path: str, status: int = 200) -> Reader:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    page = Reader(answer.text)
    assert not page.inline, f"the policy would refuse {page.inline}"
    assert len(page.ids) == len(set(page.ids)), "an id twice: live updates would mix the two up"
    return page


def one_space(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_empty_relay_says_that_nothing_is_there_yet(client: Any) -> None:
    page = read(client, "/")
    assert "All is well: nothing is running." in page.text
    for hint in ("No backend has got a run yet", "No worker has said hello yet", "No webhook delivery yet"):
        assert hint in page.text


def test_status_shows_load_backends_and_why_events_were_ignored(client: Any, world: Any) -> None:
    failed = world.failed_run()
    running, _ = world.running(pr_number=171300)
    world.worker("emulator-1")
    world.worker("emulator-9", seen=4000)
    world.effect(None, "hud", state="parked", last_error="HTTP 403 from the HUD", last_status=403, attempts=8)
    world.delivery("ignored", code="draft", reason="the pull request is a draft")
    page, twin = read(client, "/"), client.get("/index.json").json()

    assert twin["queue"]["queued"] == 1
    assert twin["queue"]["leased"] == 1
    assert twin["queue"]["oldest_wait_s"] == pytest.approx(70, abs=5)
    assert twin["outbox"]["waiting"] == 1
    assert twin["outbox"]["parked"] == 1
    assert {w["name"]: w["alive"] for w in twin["workers"]} == {"emulator-1": True, "emulator-9": False}
    [backend] = twin["backends"]
    assert backend["last"]["id"] == failed
    assert backend["open"] == 1
    assert backend["conclusions"] == {"failure": 1}
    assert [r["id"] for r in twin["runs"]] == [running]

    assert twin["sentence"] == "1 effect parked: given up until somebody looks."
    told = (twin["sentence"], "the pull request is a draft", "HTTP 403 from the HUD", backend["last"]["summary"])
    for sentence in told:
        assert sentence in page.text
    assert twin["runs"][0]["sentence"] in page.text
    assert {f"/run/{failed}", f"/run/{running}", "/pr/171300"} <= set(page.links)
    assert "never shown" not in client.get("/index.json").text


def test_a_queue_without_workers_is_the_first_thing_status_says(client: Any, world: Any) -> None:
    world.running()
    assert "1 shard in shards.spyre and no worker alive for it." in read(client, "/").text


def test_pull_request_shows_the_newest_commit_and_folds_older_ones(client: Any, world: Any) -> None:
    older = world.dispatch(
        "completed",
        head_sha="0" * 39 + "1",
        created_at=world.now - 9000,
        conclusion="success",
        summary="All fine then.",
    )
    failed = world.failed_run()
    fine = world.dispatch(
        "completed", downstream="acme/accelerator", executor="github", conclusion="success",
        summary="4 jobs passed.", closed_at=world.now - 1,
    )  # fmt: skip
    world.job(fine, "unit (3.12)", "completed", "success", results={"passed": 10, "failed": 0})
    page, twin = read(client, "/pr/171234"), client.get("/pr/171234.json").json()

    assert twin["sentence"] == "This commit breaks 1 test on torch-spyre/torch-spyre."
    assert [d["id"] for d in twin["dispatches"]] == [failed, fine], "what broke comes first"
    [spyre, acme] = twin["dispatches"]
    assert spyre["url"] == f"https://relay.example/run/{failed}"
    assert spyre["counts"] == {
        "planned": 44, "left_out": 0, "variants_done": 233, "failing": 3,
        "outcomes": {"passed": 230, "error": 1, "failed": 2},
    }  # fmt: skip
    assert [(s["side"], s["index"], s["state"]) for s in spyre["shards"]] == [
        ("head", 0, "done"), ("head", 1, "done"), ("base", 0, "done"),
    ]  # fmt: skip
    assert acme["jobs"][0]["name"] == "unit (3.12)"
    assert twin["older"][0]["dispatches"][0]["id"] == older

    for sentence in (twin["sentence"], twin["title"], spyre["sentence"], acme["sentence"], "All fine then.", "1 older"):
        assert sentence in page.text
    assert page.text.index(twin["sentence"]) < page.text.index(spyre["sentence"]) < page.text.index("All fine then.")
    assert {f"/run/{failed}", f"/run/{fine}", f"/run/{older}"} <= set(page.links)


def test_run_says_the_verdict_first_then_the_reasons(client: Any, world: Any) -> None:
    id = world.failed_run()
    page, twin = read(client, f"/run/{id}"), client.get(f"/run/{id}.json").json()

    assert twin["verdict"]["conclusion"] == "failure"
    assert [(g["kind"], g["variants"]) for g in twin["causes"]["groups"]] == [("regression", 2), ("pre-existing", 1)]
    assert [(s["name"], s["state"]) for s in twin["stages"]] == [
        ("Discover", "done"), ("Triage", "done"), ("Plan", "done"), ("Run", "done"), ("Verify", "done"),
    ]  # fmt: skip
    assert twin["stages"][3]["seconds"] == pytest.approx(60, abs=0.1)
    assert twin["progress"] == 1

    regression = twin["causes"]["groups"][0]
    for said in (
        twin["sentence"],
        one_space(regression["message"]),
        regression["why_selected"][0],
        "torch/_refs/__init__.py:logit",
        "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp",
        "the overlay holds no C++",
        "the operator database of torch 2.13.0 is 6 days old",
        "24,233 tests in the tree",
        "44 planned",
        "3 variants again on the base commit",
        "emulator-2",
        "line two of the log",
        "0, not engaged",
        "61 µs",
        "an estimate",
        "runs over all ops, and logit's reference changed",
        "the change edits the reference of logit",
        "hud.pytorch.org",
    ):
        assert said in page.text, said
    assert page.text.index(twin["sentence"]) < page.text.index("Discover") < page.text.index("Comes from")
    assert "https://github.com/pytorch/pytorch/runs/1" in page.links
    assert "never shown" not in client.get(f"/run/{id}.json").text


def test_what_models_were_asked_is_read_word_for_word(client: Any, world: Any) -> None:
    id, _ = world.running()
    assert "No model was asked about this run" in read(client, f"/run/{id}/agents").text
    long = "x" * 30_000
    world.asked(
        id, ("instructions", "You read a change."), ("tool", "</pre><script>alert(1)</script>"), ("model", long)
    )
    page = read(client, f"/run/{id}/agents")
    assert "You read a change." in page.text
    assert "</pre><script>alert(1)</script>" in page.text
    assert "10,000 more characters: in the JSON" in page.text
    assert "0.0123 US dollars" in page.text
    assert "1,200 tokens read, 80 written" in page.text
    assert client.get(f"/run/{id}/agents.json").json()["rows"][0]["transcript"][2]["text"] == long
    assert f"/run/{id}/agents" in read(client, f"/run/{id}").links
    assert client.get("/run/none/agents").status_code == 404


def test_device_time_is_summed_shared_out_and_called_an_estimate(client: Any, world: Any) -> None:
    id, shards = world.running()
    world.unmetered(id)  # only what follows was metered
    meter = {"bytes_read": 3_000_000_000, "bytes_written": 1000, "sticks": 8, "h2d_bytes": 40, "d2h_bytes": 2}
    world.results(id, shards[1], LOGIT, "passed", 2, op="mm", kernels=5, modelled_us=300.0, meter=meter)
    for n in range(14):
        world.results(id, shards[1], LOGIT, "passed", 1, op=f"op{n:02}", kernels=1, modelled_us=10.0)
    world.results(id, shards[1], LOGIT, "passed", 1, op=None, kernels=3, modelled_us=60.0)
    world.results(id, shards[1], LOGIT, "passed", 1, op="quiet", kernels=0, modelled_us=0.0)
    world.results(id, shards[1], LOGIT, "passed", 1, op="mm", kernels=None, modelled_us=None)
    world.results(id, shards[1], LOGIT, "passed", 1, op="mm", side="base", modelled_us=9e9)

    device = client.get(f"/run/{id}.json").json()["device"]
    assert (device["variants"], device["kernels"], device["modelled_us"]) == (18, 27, 800.0)
    assert (device["bytes"], device["sticks"], device["transfer_bytes"]) == (6_000_002_000, 16, 84)
    bars = device["by_operator"]
    assert [(bar["what"], bar["modelled_us"]) for bar in bars[:3]] == [
        ("mm", 600.0), (LOGIT.rpartition("::")[2], 60.0), ("op00", 10.0),
    ]  # fmt: skip
    assert bars[-1] == {"what": "all others", "variants": 5, "kernels": 4, "modelled_us": 40.0}
    assert len(bars) == 13
    assert sum(bar["modelled_us"] for bar in bars) == device["modelled_us"]

    source = client.get(f"/run/{id}?per=200").text
    text = read(client, f"/run/{id}?per=200").text
    assert "800 µs in 27 kernels of 18 variants: 6.0 GB read and written in 16 sticks, 84 B to the device" in text
    assert "an estimate, good for comparing" in text
    assert 'aria-label="75.0 percent"' in source
    assert '<rect class="bar" width="75.00" height="8"/>' in source
    assert "300 µs read 3.0 GB, written 1.0 KB, 8 sticks, to the device 40 B, from it 2 B" in text


def test_a_run_that_was_not_metered_has_no_device_time(client: Any, world: Any) -> None:
    id, _ = world.running()
    world.unmetered(id)
    assert client.get(f"/run/{id}.json").json()["device"]["by_operator"] == []
    assert "Device time" not in re.findall(r"<h2>(.*?)</h2>", client.get(f"/run/{id}").text)


def test_results_are_filtered_and_paged_alike_in_page_and_twin(client: Any, world: Any) -> None:
    id = world.failed_run()
    twin = client.get(f"/run/{id}.json?outcome=failed").json()["results"]
    assert (twin["total"], [r["outcome"] for r in twin["rows"]]) == (2, ["failed", "failed"])
    page = read(client, f"/run/{id}?outcome=failed")
    table = page.text[page.text.index("Results") :]
    assert "test_out_logit" in table
    assert "test_reference_numerics_normal_logit" not in table

    seen: set[int] = set()
    for number in range(1, 11):
        rows = client.get(f"/run/{id}.json?page={number}").json()["results"]
        assert (rows["pages"], rows["per"]) == (10, 25)
        seen |= {row["id"] for row in rows["rows"]}
    assert len(seen) == 233
    assert f"/run/{id}?page=3#results" in read(client, f"/run/{id}?page=2").links
    assert f"/run/{id}?page=1#results" in read(client, f"/run/{id}?page=2").links
    assert "on the base commit" in read(client, f"/run/{id}?side=base").text


@pytest.mark.parametrize(
    ("query", "place", "mend"),
    [
        ("outcome=broken", "outcome: 'broken'", "one of passed, failed"),
        ("side=left", "side: 'left'", "one of head, base"),
        ("stage=guess", "stage: 'guess'", "one of discover, triage, plan, verify"),
        ("page=19", "no page 19 of the results", "the last page is 10"),
        ("per=5000", "per: 5000", "give 1 to 200"),
        ("page=x", "page: ", "correct it in the address"),
    ],
)
def test_a_wrong_query_names_the_place_and_the_mend(client: Any, world: Any, query: str, place: str, mend: str) -> None:
    id = world.failed_run()
    page = read(client, f"/run/{id}?{query}", 400)
    assert place.casefold() in page.text.casefold()
    assert mend.casefold() in page.text.casefold()
    problem = client.get(f"/run/{id}.json?{query}")
    assert problem.status_code == 400
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["code"] == "bad-request"
    assert place in problem.json()["detail"]
    assert mend in problem.json()["hint"]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/run/ffffffffffffffffffffffffffffffff", "No run ffffffff"),
        ("/pr/5", "No run of pull request 5"),
        ("/pr/main", "'main' is not the number of a pull request"),
        ("/test/test/test_x.py::TestX::test_gone", "No run knows the test"),
    ],
)
def test_what_is_not_there_is_a_page_with_a_hint_and_a_problem(client: Any, path: str, what: str) -> None:
    page = read(client, path, 404)
    assert what in page.text
    problem = client.get(path + ".json")
    assert problem.status_code == 404
    assert problem.json()["code"] == "not-found"
    assert problem.json()["hint"].casefold() in page.text.casefold()


def test_a_test_without_its_parts_is_refused_with_an_example(client: Any) -> None:
    assert "test/test_x.py::TestFoo::test_bar" in read(client, "/test/test_bar", 400).text


def test_test_history_says_why_it_was_selected_and_why_skipped(client: Any, world: Any) -> None:
    id = world.failed_run()
    skipped = world.dispatch("completed", conclusion="success", head_sha=OTHER, closed_at=world.now, summary="Fine.")
    world.decision(skipped, "triage", LOGIT, "irrelevant", "no-device", "never reaches the device here")
    path = f"/test/{LOGIT}"
    page, twin = read(client, path), client.get(path + ".json").json()
    assert [r["run"]["id"] for r in twin["runs"]] == [skipped, id]
    assert twin["runs"][1]["outcomes"] == {"head": {"failed": 2, "passed": 50}, "base": {"passed": 2}}
    assert (twin["runs"][0]["variants"], twin["runs"][1]["failing"]) == (0, 2)
    for said in ("never reaches the device here", "runs over all ops", "did not run", "2 failures", "fits-budget"):
        assert said in page.text
    assert path in read(client, f"/run/{id}").links


def test_downstream_run_shows_its_own_jobs(client: Any, world: Any) -> None:
    id = world.dispatch("running", downstream="acme/accelerator", executor="github", device=None)
    world.job(id, "unit (3.12)", "completed", "failure", results={"passed": 10, "failed": 2})
    world.job(id, "lint", "in_progress", url="javascript:alert(1)")
    page, twin = read(client, f"/run/{id}"), client.get(f"/run/{id}.json").json()
    assert twin["sentence"] == "acme/accelerator: 1 of 2 jobs completed, failing: unit (3.12)."
    assert twin["sentence"] in page.text
    assert "Jobs of acme/accelerator" in page.text
    assert "2 failed" in page.text
    assert twin["plan"] is None
    assert not [link for link in page.links if link.startswith("javascript")]


@pytest.mark.parametrize(
    ("state", "values", "said"),
    [
        ("selecting", {}, "Selecting the tests that this change can break."),
        ("superseded", {"closed_at": 1.0}, "Superseded by a newer event of this pull request"),
        ("failed", {"error": "upstream is gone"}, "The relay could not run this: upstream is gone."),
        ("verifying", {}, "Weighing the results."),
        ("sending", {"executor": "github"}, "Waiting to be sent to torch-spyre/torch-spyre."),
        ("sent", {"executor": "github"}, "its CI has not reported yet"),
    ],
)
def test_every_state_has_a_sentence(client: Any, world: Any, state: str, values: dict[str, Any], said: str) -> None:
    id = world.dispatch(state, **values)
    assert said in read(client, f"/run/{id}").text
    assert said in client.get(f"/run/{id}.json").json()["sentence"]
    assert said in read(client, "/pr/171234").text
    read(client, "/")


def test_hostile_text_stays_text_everywhere(client: Any, world: Any) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=javascript:alert(3)>{{ 83*997 }}"
    test = "test/test_x.py::TestX::test_<script>alert(1)</script>"
    TestId.parse(test)
    id, shards = world.running(pr_title=evil, author=evil)
    world.results(id, shards[1], test, "failed", 1, message=evil, log_tail=evil, op=evil, reason=evil)
    world.decision(id, "discover", test, "impacted", "op-edited", evil)
    world.decision(id, "discover", evil, "impacted", "op-edited", evil)
    world.job(id, evil, "completed", "failure", workflow=evil, url=f"https://x/{evil}", artifact_url="http://x/")
    world.effect(id, "check_run", state="parked", last_error=evil, response={"html_url": "data:text/html,x"})
    world.delivery("ignored", reason=evil, code="x", event=evil[:60])
    world.worker(evil)
    world.set(dispatch, id, summary=evil, error=evil)
    for path in ("/", "/pr/171234", f"/run/{id}", f"/test/{test}"):
        page = read(client, path)  # read() refuses inline scripts, handlers and styles
        assert not [link for link in page.links if not link.startswith(("/", "https://github.com/", "#"))], path
        assert str(83 * 997) not in page.text, path
        source = client.get(path).text
        assert "<script>alert" not in source
        assert "<img" not in source
    assert html.escape("<script>alert(1)</script>", quote=False) in client.get(f"/run/{id}").text


@pytest.mark.parametrize("path", ["/", "/index.json", "/run/none", "/run/none.json", "/metrics", "/nowhere"])
def test_every_answer_carries_the_policy(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_an_old_address_of_the_search_field_leads_to_the_pull_request(client: Any) -> None:
    answer = client.get("/pr?n=%23171234", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/pr/171234")
    assert "type its digits" in read(client, "/pr?n=main", 400).text.casefold()


def test_static_files_may_be_kept_for_ever_under_their_hash(client: Any) -> None:
    source = client.get("/").text
    urls = re.findall(r'(?:src|href)="(/static/[^"]+)"', source)
    assert len(urls) == 7
    scripts = 0
    for url in urls:
        answer = client.get(url, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert client.get(url, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        stale = re.sub(r"\.[0-9a-f]{12}\.", ".000000000000.", url)
        assert client.get(stale).headers["cache-control"] == "no-cache"
        scripts += int(answer.headers["content-length"]) if url.endswith(".js") else 0
    assert 0 < scripts <= 60_000
    assert client.get("/static/../pages.py").status_code == 404
    assert client.get("/static/vendor/htmx/LICENSE").status_code == 200


def test_a_run_of_many_results_reads_only_what_it_shows(client: Any, world: Any) -> None:
    id, shards = world.running()
    for _ in range(20):
        world.results(id, shards[1], LOGIT, "passed", 500, log_tail="x" * 50)
    world.results(id, shards[1], LOGIT, "failed", 1, log_tail="y" * 100_000)
    fetched: list[str] = []
    event.listen(client.app.state.engine, "before_cursor_execute", lambda *a: fetched.append(a[2]))
    answer = client.get(f"/run/{id}")
    assert "10,162 variants" in Reader(answer.text).text
    assert len(answer.content) < 150_000
    assert len(fetched) < 25, "the number of queries must not grow with the run"
    assert "yyyy" in answer.text, "the end of the failure's log"


def test_a_pull_request_is_told_when_the_backend_fails_on_others_too(client: Any, world: Any) -> None:
    own_ci = {"downstream": "acme/accelerator", "executor": "github", "device": None, "level": "L2"}
    for n, word in enumerate(("success", "failure", "failure"), 1):
        world.dispatch("completed", pr_number=n, head_sha=f"{n:040x}", conclusion=word, closed_at=world.now,
                       created_at=world.now - 9000 + n, **own_ci)  # fmt: skip
    mine = world.dispatch("completed", conclusion="failure", closed_at=world.now, **own_ci)
    page = client.get("/pr/171234").text
    assert "It may not be this change" in page
    assert "each of the 2 changes before this one" in page
    [told] = client.get("/pr/171234.json").json()["dispatches"]
    assert (told["id"], told["streak"]["runs"], told["streak"]["more"]) == (mine, 2, False)
    assert "3 in a row" in client.get("/crcr").text or "3 in a row" in client.get("/").text
    world.dispatch("completed", pr_number=9, head_sha="9" * 40, conclusion="success", closed_at=world.now,
                   created_at=world.now - 8000, **own_ci)  # fmt: skip
    assert "It may not be this change" not in client.get("/pr/171234").text


def test_a_run_whose_details_were_tidied_away_says_so(client: Any, world: Any) -> None:
    day = 86400
    old = {"started_at": world.now - 50 * day, "created_at": world.now - 50 * day, "conclusion": "success"}
    gone = world.dispatch("completed", closed_at=world.now - 46 * day, **old)
    young = world.dispatch("completed", pr_number=2, closed_at=world.now - 44 * day, **old)
    assert "the relay keeps that for 45 days" in client.get(f"/run/{gone}").text
    assert "the relay keeps that" not in client.get(f"/run/{young}").text
