"""Exploration and rankers on trial, from a selection to the page that shows what they say."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest
from factories import make_run
from fastapi.testclient import TestClient
from sqlalchemy import insert, select, update

from relay.demo.upstream import build
from relay.services import exploring, selecting, trying
from relay.settings import Settings
from relay.store import workers
from relay.store.db import reading
from relay.store.schema import decision, dispatch, plan, quarantine, result, shard, trial
from relay.web.app import create_app
from selector.model import Cause, Conclusion, Outcome, TestId, VariantResult, Verdict

CONFIGS = Path(__file__).resolve().parents[2] / "test_configs" / "spyre"
HELLO = {"name": "w", "device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "info": {}}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    pytest.importorskip("torch", reason="NOT RUN: the demo's tree is made from the installed torch")
    return build(tmp_path_factory.mktemp("upstream") / "repo", sys.executable)


@pytest.fixture
def settings(tmp_path, upstream):
    configs = tmp_path / "configs"
    shutil.copytree(CONFIGS, configs)
    (configs / "all.yaml").write_text(
        "test_suite_config:\n  extends: capability.yaml\n  files:\n"
        "    - path: ${TORCH_ROOT}/test/test_*_demo.py\n      unlisted_test_mode: mandatory_success\n"
    )
    return Settings(data_dir=tmp_path, upstream_url=str(upstream.path), configs_dir=configs, explore_share=1.0)


def selected(engine, settings, upstream, **over):
    with engine.begin() as conn:
        workers.hello(conn, {**HELLO, "runtimes": ["tests-only", "overlay"]}, time.time())
    run = make_run(
        engine, state="selecting", due_at=time.time(), base_sha=upstream.base_sha, head_sha=upstream.head_sha,
        compare_sha=None, base_ref="main", **over,
    )  # fmt: skip
    selecting.select_dispatch(engine, settings, run)
    with reading(engine) as conn:
        return run, conn.execute(select(plan).where(plan.c.dispatch_id == run)).one()


def test_an_exploring_run_draws_tests_that_nothing_selected(engine, settings, upstream):
    run, row = selected(engine, settings, upstream)
    drawn = set(row.exploration["tests"])
    chosen = {t["test"] for t in row.tests if t["codes"] != ["explore"]}
    assert row.exploration["fraction"] == 1.0, "a small tree has room for all of it"
    assert row.exploration["population"] == len(drawn) > 3
    assert not drawn & chosen
    assert set(upstream.expect.untouched) & drawn
    with reading(engine) as conn:
        specs = conn.execute(select(shard.c.spec).order_by(shard.c.index)).scalars().all()
        codes = conn.execute(select(decision.c.code).where(decision.c.subject.in_(drawn))).scalars().all()
    assert {t for spec in specs for t in spec["tests"]} == drawn | chosen
    assert not set(specs[-1]["tests"]) - drawn, "behind what was selected"
    assert codes.count("plan-explored") == len(drawn)
    again, _ = selected(engine, settings.model_copy(update={"explore_share": 0.0}), upstream, pr_number=8)
    with reading(engine) as conn:
        assert conn.execute(select(plan.c.exploration).where(plan.c.dispatch_id == again)).scalar_one() is None
    assert run != again


def test_rankers_on_trial_order_the_same_tests_and_change_nothing(engine, settings, upstream):
    _, row = selected(engine, settings.model_copy(update={"explore_share": 0.0}), upstream)
    orders = row.shadow["orders"]
    assert set(orders) == {"expected-value", "weight"}
    assert [t["test"] for t in row.tests] == orders["expected-value"], "what is in force is what runs"
    assert set(orders["weight"]) == set(orders["expected-value"])
    opinions = {one["subject"]: one for one in row.shadow["opinions"]}
    assert set(opinions) == {"rule:siblings", "rule:compile_classes"}
    beside = opinions["rule:siblings"]
    assert beside["adds"]
    assert not set(beside["adds"]) & {t["test"] for t in row.tests}
    assert beside["reasons"][0]["code"] == "same-class"


def test_only_trunk_teaches(engine, settings, upstream):
    test = "test/test_reductions_demo.py::TestReductionsDemo::test_sum_along"
    run, _ = selected(engine, settings, upstream)
    with engine.begin() as conn:
        (id,) = conn.execute(select(shard.c.id).limit(1)).scalars()
        line = {"dispatch_id": run, "shard_id": id, "test": test, "mode": "mandatory_success", "fence": 1, "kernels": 5}
        for side, variant, seconds in (("head", "a", 50.0), ("base", "b", 0.5), ("base-again", "c", 1.5)):
            more = {"side": side, "variant": variant, "seconds": seconds, "outcome": "passed", "attempt": 0}
            conn.execute(insert(result).values(**line, **more, recorded_at=time.time()))
        learned = exploring.learn(conn, "spyre", time.time())
        assert learned.history.variant_seconds == {TestId.parse(test): 1.0}
        assert learned.kernels == {TestId.parse(test): 5}
        assert learned.history.touched == {TestId.parse(test): True}
        assert learned.history.broke == {TestId.parse(test): (0, 1)}
        conn.execute(update(dispatch).values(base_ref="gh/mallory/3/base"))
        assert exploring.learn(conn, "spyre", time.time()).history.variant_seconds == {}


def test_the_page_shows_the_recall_with_its_interval(engine, settings, upstream):
    run, row = selected(engine, settings, upstream)
    first, second = (t["test"] for t in row.tests[:2])
    causes = [{"kind": "regression", "test": first, "codes": ["helper"]}]
    causes += [{"kind": "regression", "test": row.exploration["tests"][0], "codes": ["explore"]}]
    causes += [{"kind": "pre-existing", "test": second, "codes": ["helper"]}]
    with engine.begin() as conn:
        conn.execute(update(dispatch).values(state="completed", verdict={"causes": causes}))
        values = {"device": "spyre", "test": first, "variant": "", "reason": "races", "evidence": "", "issue": "a/b#1"}
        conn.execute(insert(quarantine).values(**values, until=time.time() + 9e4, created_at=time.time()))
    with TestClient(create_app(settings)) as client:
        told = client.get("/quality.json").json()
        assert (told["recall"]["selected"], told["recall"]["drawn"], told["recall"]["estimate"]) == (1, 1, 0.5)
        (said,) = told["on_trial"]
        assert (said["subject"], said["live"], said["why"]) == ("rule:siblings", None, "no run has had it on trial")
        assert (said["examples"][0]["verdict"], said["examples"][0]["code"]) == ("keep", "same-class")
        page = client.get("/quality")
    assert page.status_code == 200
    assert "Selection finds 50.0% of the tests that changes break (50.0% to 50.0%, at 95%)" in page.text
    assert "races" in page.text
    assert f'would keep <span class="mono">{said["examples"][0]["test"]}</span>' in page.text.replace("<wbr>", "")
    assert run


def test_with_the_verdict_what_is_on_trial_is_held_against_what_ran(engine, settings, upstream, tmp_path):
    """Exploration's live counts and a replay's report, from the run to the page."""
    run, row = selected(engine, settings, upstream)
    beside = next(one for one in row.shadow["opinions"] if one["subject"] == "rule:siblings")
    drawn, added = set(row.exploration["tests"]), set(beside["adds"])
    assert added <= drawn, "a small tree draws all of it"
    first = min(added)
    head = [VariantResult(TestId.parse(test), "v", Outcome.PASSED, kernels=1) for test in sorted(drawn)]
    cause = Cause("k", TestId.parse(first), "regression", Outcome.FAILED, "", ("explore",), (), "")
    verdict = Verdict(Conclusion.FAILURE, "verify-regression", "", {}, (cause,))
    with engine.begin() as conn:
        for _ in range(2):  # twice is once
            trying.record(conn, run, head, verdict, time.time())
        told = dict(conn.execute(select(trial.c.subject, trial.c.told).where(trial.c.dispatch_id == run)).all())
    assert set(told) == {"ranker:weight", "rule:siblings", "rule:compile_classes"}
    counts = told["rule:siblings"]
    assert (counts["adds_seen"], counts["adds_broken"]) == (len(added), 1)
    assert (counts["others_seen"], counts["others_broken"]) == (len(drawn - added), 0)
    assert told["ranker:weight"]["missed"] == 0, "what was drawn was nobody's to order"
    report = {"subject": "rule:siblings", "change_recall": 0.9, "baseline": 0.8, "n": 50, "seconds_share": 1.2}
    (tmp_path / "replay.json").write_text(json.dumps([report]))
    replayed = settings.model_copy(update={"replay_reports": tmp_path / "replay.json"})
    with TestClient(create_app(replayed)) as client:
        shown = {one["subject"]: one for one in client.get("/quality.json").json()["on_trial"]}
        page = client.get("/quality").text
    assert shown["rule:siblings"]["live"]["adds_broken"] == 1
    assert shown["rule:siblings"]["why"].startswith(f"exploration drew {len(added)} of the tests that it adds: 1 broke")
    assert shown["ranker:weight"]["why"] == "it was not replayed"
    assert shown["rule:siblings"]["why"] in page
    (tmp_path / "replay.json").write_text("{")
    with TestClient(create_app(replayed)) as client:
        assert "replay.json:1:2: no JSON" in client.get("/quality").text, "told, and the page is there"
