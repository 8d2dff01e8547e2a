"""Depends-On lines, the oncalls' comment, deadlines in words, provenance."""

from __future__ import annotations

import pytest

from relay.domain.allowlist_entry import Deadlines
from relay.domain.deadlines import RUN_S, START_S, end_missed, limits, start_missed, words
from relay.domain.depends import dependencies, of_repository
from relay.domain.oncall import End, Streak, comment, marker, step
from relay.domain.provenance import make, of_specs, same, source_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Depends-On: org/repo#12", [("org/repo", 12)]),
        ("text\r\n  depends-on:   https://github.com/org/re.po/pull/3\r\nmore", [("org/re.po", 3)]),
        ("> Depends-On: a/b#1\n- Depends-On: c/d#2", [("a/b", 1), ("c/d", 2)]),
        ("Depends-On: a/b#1\nDepends-On: A/B#2", [("a/b", 1)]),
        ("See Depends-On: a/b#1 here", []),
        ("Depends-On: a/b#0\nDepends-On: a#1\nDepends-On: https://evil.example/a/b/pull/1", []),
        ("Depends-On: a/b#12345678901", []),
        ("", []),
    ],
)
def test_what_a_text_depends_on(text, found):
    assert [(one.repo, one.number) for one in dependencies(text)] == found


def test_a_downstream_is_found_under_any_of_its_names():
    assert of_repository("Depends-On: Org/Old#4", {"org/new", "org/old"}).number == 4
    assert of_repository("Depends-On: other/old#4", {"org/new", "org/old"}) is None


def test_many_lines_are_bounded():
    assert len(dependencies("\n".join(f"Depends-On: a/b{n}#1" for n in range(500)))) == 20


def end(conclusion, dispatch_id="d1", **more):
    told = {
        "code": None,
        "summary": "1 of 2 jobs failure: ci / x",
        "oncalls": ["ann", "org/team"],
        "page": "https://r/run/d1",
    }
    return End(dispatch_id, "org/four", "L4", "a" * 40, conclusion, **{**told, **more})


@pytest.mark.parametrize(
    ("streak", "conclusion", "what", "failures"),
    [
        (None, "failure", "begin", 1),
        (None, "timed_out", "begin", 1),
        (None, "success", "none", 0),
        (None, "neutral", "none", 0),
        (Streak("s", 1, "d0"), "failure", "go-on", 2),
        (Streak("s", 1, "d1"), "failure", "go-on", 1),  # the same commit once more
        (Streak("s", 3, "d0"), "success", "end", 3),
        (Streak("s", 3, "d0"), "neutral", "none", 0),
        (Streak("s", 3, "d0"), "cancelled", "none", 0),
    ],
)
def test_what_an_end_means_for_a_streak(streak, conclusion, what, failures):
    found = step(streak, end(conclusion))
    assert (found.what, found.failures) == (what, failures)


def test_only_the_allowlist_mentions_anybody():
    hostile = end(
        "failure", summary="@everyone <!-- crcr-relay oncall x --> [a](http://e)",
        jobs=[("@x | y", "failure", "https://h/(a)"), ("z", "timed_out", None)],
    )  # fmt: skip
    text = comment("s1", hostile, step(None, hostile))
    assert text.startswith(marker("s1"))
    mentions = [word for word in text.split() if word.startswith("@") and not word.startswith("@\u200b")]
    assert mentions == ["@ann", "@org/team"]
    assert text.count("<!--") == 1
    assert "](https://h/%28a%29)" in text
    over = comment("s1", end("success"), step(Streak("s1", 2, "d0"), end("success")))
    assert "passes again" in over
    assert "@" not in over


def test_deadlines_are_the_downstreams_own_where_it_says_so():
    assert limits(None).start_s == limits(Deadlines()).start_s == START_S
    own = limits(Deadlines(start_s=60.0))
    assert (own.start_s, own.run_s) == (60.0, RUN_S)
    assert start_missed(0.0, own, 61.0)
    assert not start_missed(0.0, own, 60.0)
    assert end_missed("in_progress", 0.0, 10.0, own, RUN_S + 11.0)
    assert end_missed("queued", 0.0, None, own, 61.0)
    assert not end_missed("completed", 0.0, 10.0, own, 9e9)
    assert [words(s) for s in (90.0, 1800.0, 86400.0, 5 * 86400.0)] == ["90 s", "30 min", "1 d", "5 d"]


def test_provenance_names_what_the_verdict_was_made_of():
    spec = {
        "runtime": {"kind": "overlay", "torch": "2.13.0", "files": ["torch/a.py"]}, "capability": "sheet",
        "configs": [{"name": "a.yaml", "text": "x"}],
    }  # fmt: skip
    run = dict.fromkeys(("upstream", "head_sha", "base_sha", "compare_sha", "downstream", "pin", "rerun_of"), "v")
    lab = [{"name": "w", "torch": "2.13.0", "info": {"image": "img@sha256:1", "python": "3.11"}}]
    found = make(run, versions={"relay": "1"}, made_of=of_specs([spec, spec]), workers=lab, sources=[])
    assert found["runtime"] == [{"kind": "overlay", "torch": "2.13.0", "files": 1}]
    assert len(found["capability"]) == len(found["configs"]["a.yaml"]) == 1
    assert found["workers"][0]["image"] == "img@sha256:1"
    changed = make(run, versions={}, made_of=of_specs([{**spec, "capability": "other"}]), workers=[], sources=[])
    assert same(found, changed) == ["capability"]
    assert source_of({"sha": "a", "ref": "r", "run_id": "5", "jti": "x"}) == {"sha": "a", "ref": "r"}
