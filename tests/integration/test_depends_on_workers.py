"""``Depends-On`` reaches our own workers: the named pull request's sheet and configs are what the tests run under."""

from __future__ import annotations

import json
import time

import pytest
from factories import make_delivery, make_run
from outbound_servers import local_github
from situation_lab import SHEET, Worker, lab, module
from sqlalchemy import select, update

from relay.domain.facts import RerunFact
from relay.domain.provenance import digest
from relay.services import rerunning, selecting
from relay.store import deliveries, reruns, setups, trunk
from relay.store.db import reading
from relay.store.schema import dispatch, job, outbox, plan

pytestmark = pytest.mark.torch
REPO, FOLDER, SHA = "torch-spyre/torch-spyre", "tests/configs", "5" * 40
OURS = SHEET.read_text()
THEIRS = OURS.replace("    - clamp\n", "    - clamp\n    - cosh\n", 1)
CONFIG = (
    "test_suite_config:\n  extends: capability.yaml\n  files:\n"
    "    - path: ${TORCH_ROOT}/test/test_*.py\n      unlisted_test_mode: mandatory_success\n"
)
TEST = """
def test_cosh(self, device):
    x = torch.zeros(3, device=device)
    self.assertEqual(torch.cosh(x).cpu(), torch.ones(3))
"""
FILE = "test/test_it.py"


@pytest.fixture(scope="module")
def github(tmp_path_factory):
    folder = tmp_path_factory.mktemp("github")
    with local_github(folder) as world:
        yield world


@pytest.fixture(scope="module")
def here(tmp_path_factory, github):
    assert THEIRS != OURS
    tmp = tmp_path_factory.mktemp("lab")
    listed = tmp / "allowlist.yml"
    listed.write_text(f"L4:\n  - {REPO}:\n      executor: workers\n      device: spyre\n      configs: {FOLDER}\n")
    app = {
        "github_api_url": github.url, "github_app_id": github.settings.github_app_id,
        "github_private_key": github.settings.github_private_key.get_secret_value(),
    }  # fmt: skip
    with lab(tmp / "l", allowlist=str(listed), **app) as made:
        made.config(CONFIG)
        made.base = made.commit({"version.txt": "2.13.0\n", FILE: module("TestIt", TEST)}, message="base")
        made.head = made.commit({FILE: module("TestIt", TEST, touched=1)}, made.base)
        yield made


@pytest.fixture(autouse=True)
def downstream(github):
    """The downstream's pull request 12, whose sheet has one more op."""
    held = {f"{FOLDER}/capability.yaml": THEIRS, f"{FOLDER}/a.yaml": CONFIG, f"{FOLDER}/README.md": "x"}
    github.hub.files.repos[REPO] = {SHA: held}
    github.hub.ledger.pulls[REPO, 12] = {"number": 12, "state": "open", "head": {"sha": SHA}}
    yield held
    github.hub.asgi.faults.clear()


def told(here, text="Depends-On: torch-spyre/torch-spyre#12"):
    """A delivery of a pull request with this text; -> its id."""
    body = json.dumps({"pull_request": {"body": text}}).encode()
    return make_delivery(here.engine, body=deliveries.pack(body))


def selected(here, text="Depends-On: torch-spyre/torch-spyre#12", **over):
    """A run after its selection, that nobody runs."""
    here.dismiss()
    here.enrol(Worker("w"))
    given = {"author": "ann", "author_trusted": True, "delivery_id": told(here, text), **over}
    run = make_run(
        here.engine, state="selecting", due_at=time.time(), base_sha=here.base, head_sha=here.head, compare_sha=None,
        pr_number=here.number, **given,
    )  # fmt: skip
    selecting.select_dispatch(here.engine, here.settings, run)
    return here.row(run)


def sheet(here, run):
    """The sheet that the run's first shard hands out."""
    with reading(here.engine) as conn:
        return setups.whole(conn, here.shards(run.id)[0].spec)["capability"]


def said(here, run):
    """What the newest check run of the run says."""
    with reading(here.engine) as conn:
        query = select(outbox.c.payload).where(outbox.c.dispatch_id == run.id, outbox.c.kind == "check_run")
        return conn.execute(query.order_by(outbox.c.id.desc())).scalars().first()["output"]["summary"]


def test_a_worker_runs_with_the_sheet_of_the_named_pull_request(here):
    crew = [Worker("w1")]
    run = here.play(
        here.head, here.base, crew, author="ann", author_trusted=True, delivery_id=told(here), base_ref="main"
    )
    assert (run.conclusion, run.code) == ("success", "verify-passed"), run.summary
    assert run.pin == {"repo": REPO, "number": 12, "sha": SHA, "state": "open"}
    assert run.provenance["pin"] == run.pin
    assert run.provenance["capability"] == [digest(THEIRS)]
    assert run.provenance["configs"] == {"a.yaml": [digest(CONFIG)], "capability.yaml": [digest(THEIRS)]}
    assert f"Depends-On: with {REPO}#12 at 5555555555." in said(here, run).replace("\u200b", "")
    # without it the device lacks the op
    plain = here.play(here.head, here.base, crew, delivery_id=told(here, "no line"), base_ref="main")
    assert plain.code != "verify-passed"
    assert (plain.pin, plain.provenance["capability"]) == (None, [digest(OURS)])


def test_a_rerun_takes_the_same_commit_whatever_the_pull_request_has_become(here, github):
    run = selected(here)
    with here.engine.begin() as conn:
        conn.execute(update(dispatch).where(dispatch.c.id == run.id).values(state="completed", closed_at=1.0))
        conn.execute(update(job).where(job.c.dispatch_id == run.id).values(check_run_id="4711"))
    github.hub.ledger.pulls[REPO, 12]["head"] = {"sha": "6" * 40}
    asked = make_delivery(here.engine, event="check_run", state="noted")
    with here.engine.begin() as conn:
        assert reruns.ask(conn, asked, run.upstream, RerunFact(run.head_sha, "4711", "ann"), time.time()) == 1
    assert rerunning.step(here.engine, here.settings, time.time())["asked"] == 1
    with reading(here.engine) as conn:
        again = conn.execute(select(dispatch).where(dispatch.c.rerun_of == run.id)).one()
    assert again.pin == run.pin
    assert [row.spec for row in here.shards(again.id)] == [row.spec for row in here.shards(run.id)]


def test_a_rerun_of_a_rerun_reads_the_text_of_the_first(here):
    """Neither came to a plan or a pin: what they repeat is selected anew."""
    first = make_run(here.engine, delivery_id=told(here), state="failed")
    asked = [make_delivery(here.engine, event="check_run", state="noted") for _ in range(2)]
    again = make_run(here.engine, delivery_id=asked[0], state="failed", rerun_of=first)
    run = selected(here, delivery_id=asked[1], rerun_of=again)
    assert run.pin == {"repo": REPO, "number": 12, "sha": SHA, "state": "open"}
    assert sheet(here, run) == THEIRS


def test_who_is_not_trusted_gets_our_own_configs_and_the_reason(here, github):
    run = selected(here, author_trusted=False)
    assert run.pin["problem"] == f"ann is not trusted by {REPO}"
    assert sheet(here, run) == OURS
    assert [c for c in github.hub.asgi.calls if f"{REPO}/pulls" in c["path"] and c["at"] > run.created_at] == []


def test_a_pull_request_that_is_not_there_is_said(here):
    run = selected(here, "Depends-On: torch-spyre/torch-spyre#13")
    assert run.pin["problem"] == "there is no such pull request"
    assert sheet(here, run) == OURS


def test_an_allowlist_that_does_not_say_where_configs_are(here, tmp_path):
    listed = tmp_path / "allowlist.yml"
    listed.write_text(f"L4:\n  - {REPO}:\n      executor: workers\n      device: spyre\n")
    before = here.settings
    here.settings = before.model_copy(update={"allowlist": str(listed)})
    try:
        run = selected(here)
    finally:
        here.settings = before
    assert "`configs`" in run.pin["problem"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({f"{FOLDER}/a.yaml": "test_suite_config: [\n"}, "a.yaml:2"),
        ({f"{FOLDER}/a.yaml": None}, "has to hold capability.yaml and 1 to 199 reuse configs"),
        ({f"{FOLDER}/capability.yaml": THEIRS.replace("device: spyre", "device: card")}, "is of the device card"),
    ],
)
def test_what_cannot_be_used_ends_the_run_with_the_place(here, downstream, change, why):
    for path, text in change.items():
        downstream.pop(path) if text is None else downstream.update({path: text})
    run = selected(here)
    assert (run.state, run.conclusion, run.code) == ("failed", "neutral", "select-failed")
    assert f"{REPO}#12 at 5555555555 cannot be used" in run.summary
    assert why in run.summary
    with reading(here.engine) as conn:
        assert conn.execute(select(plan).where(plan.c.dispatch_id == run.id)).first() is None


def test_while_github_does_not_answer_nothing_is_selected_with_other_configs(here, github):
    github.fail(path=f"/repos/{REPO}/pulls/12", status=502)
    run = selected(here)
    assert (run.state, run.pin) == ("selecting", None)
    assert "GitHub cannot be asked" in run.error
    selecting.select_dispatch(here.engine, here.settings, run.id)
    assert sheet(here, run) == THEIRS


def test_results_under_a_pin_are_not_trunks(here):
    run = selected(here, base_ref="main")
    plain = selected(here, "no line", base_ref="main")
    with reading(here.engine) as conn:
        found = conn.execute(select(dispatch.c.id).where(trunk.is_trunk())).scalars().all()
    assert plain.id in found
    assert run.id not in found
