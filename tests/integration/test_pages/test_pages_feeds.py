"""Badges and Atom feeds: well-formed whatever people write, and true."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from relay.store.schema import dispatch

ATOM = {"a": "http://www.w3.org/2005/Atom"}
EVIL = "</title><script>alert(1)</script>\x00\x1b[31m ]]> & \ud83e\udd80"


def told(answer: Any, kind: str) -> ET.Element:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(kind)
    return ET.fromstring(answer.content)


def test_a_backends_feed_has_its_concluded_runs_the_newest_first(client: Any, world: Any) -> None:
    old = world.dispatch("completed", conclusion="success", summary="Fine.", closed_at=world.now - 500,
                         created_at=world.now - 600)  # fmt: skip
    new = world.failed_run()
    world.running(pr_number=4, head_sha="c" * 40)
    feed = told(client.get("/crcr/Torch-Spyre/torch-spyre.atom"), "application/atom+xml")
    entries = feed.findall("a:entry", ATOM)
    assert [e.findtext("a:id", namespaces=ATOM) for e in entries] == [f"urn:crcr-relay:run:{i}" for i in (new, old)]
    assert entries[0].find("a:link", ATOM).attrib["href"] == f"https://relay.example/run/{new}"
    assert entries[0].findtext("a:title", namespaces=ATOM).startswith("failure: torch-spyre/torch-spyre on #171234")
    closed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(world.now - 12))
    assert feed.findtext("a:updated", namespaces=ATOM) == closed
    assert client.get("/crcr/no/body.atom").status_code == 404
    assert client.get("/crcr/no/body.atom").headers["content-type"] == "application/problem+json"


def test_a_pull_requests_feed_has_all_its_backends(client: Any, world: Any) -> None:
    world.failed_run()
    world.dispatch("completed", downstream="acme/accelerator", conclusion="success", closed_at=world.now)
    world.dispatch("completed", upstream="a/b", conclusion="success", closed_at=world.now)
    feed = told(client.get("/pr/171234.atom?upstream=pytorch/pytorch"), "application/atom+xml")
    assert len(feed.findall("a:entry", ATOM)) == 2
    assert client.get("/pr/1.atom").status_code == 404
    assert client.get("/pr/x.atom").status_code == 400


@pytest.mark.parametrize(
    ("word", "says"), [("success", "success"), ("failure", "failure"), ("neutral", "neutral"), (None, "unknown")]
)
def test_a_badge_says_how_the_newest_run_ended(client: Any, world: Any, word: str | None, says: str) -> None:
    if word:
        world.dispatch("completed", conclusion="success", closed_at=world.now - 99, created_at=world.now - 99)
    world.dispatch("completed" if word else "running", conclusion=word, closed_at=world.now if word else None)
    answer = client.get("/badge/torch-spyre/torch-spyre.svg")
    svg = told(answer, "image/svg+xml")
    assert svg.attrib["aria-label"] == f"torch-spyre: {says}"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert told(client.get("/badge/pr/171234.svg"), "image/svg+xml").attrib["aria-label"] == f"PR 171234: {says}"


def test_a_badge_of_a_pull_request_is_of_its_newest_commit_and_the_worst_backend(client: Any, world: Any) -> None:
    world.dispatch("completed", conclusion="failure", head_sha="0" * 40, created_at=world.now - 900, closed_at=1.0)
    world.dispatch("completed", conclusion="success", closed_at=world.now)
    assert "PR 171234: success" in client.get("/badge/pr/171234.svg").text
    world.dispatch("completed", downstream="a/b", conclusion="failure", closed_at=world.now)
    assert "PR 171234: failure" in client.get("/badge/pr/171234.svg").text


def test_whatever_people_write_they_stay_well_formed(client: Any, world: Any) -> None:
    evil = EVIL.encode("utf-16", "surrogatepass").decode("utf-16")
    id = world.dispatch("completed", conclusion="failure", closed_at=world.now, pr_title=evil)
    world.set(dispatch, id, summary=evil, code=evil[:60])
    for path in ("/pr/171234.atom", "/crcr/torch-spyre/torch-spyre.atom", "/badge/torch-spyre/torch-spyre.svg"):
        answer = client.get(path)
        ET.fromstring(answer.content)
        assert b"<script" not in answer.content


def test_pages_name_their_feed(client: Any, world: Any) -> None:
    world.job(world.failed_run(), "unit", "completed", "failure")
    for path in ("/pr/171234", "/crcr/torch-spyre/torch-spyre"):
        assert f'type="application/atom+xml" href="{path}.atom"' in client.get(path).text
