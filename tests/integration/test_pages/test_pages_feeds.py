"""Badges and Atom feeds: well-formed whatever people write, and true."""

from __future__ import annotations

import re
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


ONCE = ("id", "title", "updated")
"""What a feed and each of its entries has exactly once (RFC 4287, 4.1)."""
KNOWN = {
    "feed": {*ONCE, "link", "author", "entry"},
    "entry": {*ONCE, "link", "published", "summary", "category"},
    "author": {"name"},
}
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def is_atom(feed: ET.Element) -> None:
    """Holds a document against what the Atom format asks of the elements that we use, and that we use no others."""
    assert feed.tag == f"{{{ATOM['a']}}}feed"
    for one in (feed, *feed.findall("a:entry", ATOM), *feed.findall("a:author", ATOM)):
        kind = one.tag.partition("}")[2]
        names = [child.tag.removeprefix(f"{{{ATOM['a']}}}") for child in one]
        assert set(names) <= KNOWN[kind], names
        if kind == "author":
            assert names == ["name"]
            continue
        assert all(names.count(name) == 1 for name in ONCE), names
        for name in ("updated", "published"):
            assert all(DATE.fullmatch(said.text or "") for said in one.findall(f"a:{name}", ATOM))
        alternate = [x.attrib for x in one.findall("a:link", ATOM) if x.attrib["rel"] == "alternate"]
        assert [set(x) for x in alternate] == [{"rel", "type", "href"}], "one for each type, or none"
        assert all(x.attrib["href"].startswith("https://") for x in one.findall("a:link", ATOM))
    assert [x.attrib["rel"] for x in feed.findall("a:link", ATOM)].count("self") == 1
    assert feed.findall("a:author", ATOM), "entries have none of their own"
    ids = [x.text for x in feed.findall("a:entry/a:id", ATOM)]
    assert len(ids) == len(set(ids))
    assert all(re.match(r"[a-z][a-z0-9+.-]*:", text or "") for text in (*ids, feed.findtext("a:id", "", ATOM)))


def test_a_backends_feed_has_its_concluded_runs_the_newest_first(client: Any, world: Any) -> None:
    old = world.dispatch("completed", conclusion="success", summary="Fine.", closed_at=world.now - 500,
                         created_at=world.now - 600)  # fmt: skip
    new = world.failed_run()
    world.running(pr_number=4, head_sha="c" * 40)
    feed = told(client.get("/crcr/Torch-Spyre/torch-spyre.atom"), "application/atom+xml")
    is_atom(feed)
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
    is_atom(feed)
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
        found = ET.fromstring(answer.content)
        if path.endswith(".atom"):
            is_atom(found)
        assert b"<script" not in answer.content


def test_pages_name_their_feed(client: Any, world: Any) -> None:
    world.job(world.failed_run(), "unit", "completed", "failure")
    for path in ("/pr/171234", "/crcr/torch-spyre/torch-spyre"):
        assert f'type="application/atom+xml" href="{path}.atom"' in client.get(path).text
