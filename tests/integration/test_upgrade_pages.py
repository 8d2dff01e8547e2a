"""The pages of upgrades over what the relay itself stored: they say it, their twins say the same."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from night_trunk import Trunk, enrol, look, make_settings, work

from relay.services import allowlists
from relay.web.app import create_app
from relay.web.twins.upgrade import UpgradePair
from relay.web.upgrade import nights_sentence


@pytest.fixture
def trunk(tmp_path):
    return Trunk(tmp_path / "upstream")


@pytest.fixture
def settings(tmp_path, engine):
    allowlists.forget()
    return make_settings(tmp_path, database_url=str(engine.url))


@pytest.fixture
def nights(engine, trunk, settings):
    """Three nights: the second breaks a test, the third renames one and adds one."""
    first = trunk.commit(0, old=1, other=2)
    enrol(engine)
    look(engine, settings, 1)
    second = trunk.commit(1, old=11, other=2)
    look(engine, settings, 2)
    work(engine, settings, lambda test, commit: commit == second)
    third = trunk.commit(2, old=11, another=2, new=3)
    look(engine, settings, 3)
    work(engine, settings, lambda test, commit: commit == second or test == "test_new")
    return first, second, third


@pytest.fixture
def client(settings, nights):
    with TestClient(create_app(settings)) as found:
        yield found


def test_the_list_has_the_trend(client, nights):
    value = client.get("/upgrade.json").json()
    assert [(n["night"], n["good"]) for n in value["nights"]] == [
        ("2026-11-03", True),
        ("2026-11-02", False),
        ("2026-11-01", True),
    ]
    assert value["nights"][1]["standings"]["regression"] == 1
    assert value["sentence"] == "The newest night is good: 2026-11-03"
    page = client.get("/upgrade").text
    assert "2026-11-02" in page
    assert "<polyline" in page
    assert f"/upgrade/{nights[0]}..{nights[2]}" in page, "held against the last good night"


def test_a_pair_shows_counts_progress_and_reasons(client, nights):
    first, second, third = nights
    value = client.get(f"/upgrade/{first}..{second}.json").json()
    UpgradePair.model_validate(value)
    assert value["report"]["kinds"]["body"] == 1
    assert value["progress"] == {"evaluate": 1, "relevant": 1, "planned": 1, "evaluated": 1, "left": 0}
    assert [point["left"] for point in value["burn_down"]] == [1, 0]
    (change,) = [c for c in value["changes"] if c["relevant"]]
    assert (change["standing"], change["message"]) == ("regression", "Error: no")
    assert value["worst"] == [change], "what a release manager asks first"
    assert client.get(f"/upgrade/{first}..{second}.json?kind=body").json()["worst"] == []
    page = client.get(f"/upgrade/{first[:10]}..{second[:10]}")
    assert page.status_code == 200
    assert "TestX::test_old" in page.text
    assert "1 regression" in page.text
    named = client.get(f"/upgrade/{first}..2026-11-03.json").json()
    assert named["new_sha"] == third, "a night is also called by its day"


def test_filters_and_their_bounds(client, nights):
    first, _, third = nights
    at = f"/upgrade/{first}..{third}.json"

    def tests(query: str) -> list[str]:
        return sorted(c["test"].rpartition("::")[2] for c in client.get(f"{at}?{query}").json()["changes"])

    assert tests("") == ["test_another", "test_new", "test_old"]
    assert tests("kind=renamed") == ["test_another"]
    assert tests("kind=new") == ["test_new"]
    assert tests("only=newcomer-fails") == ["test_new"]
    assert tests("find=OLD") == ["test_old"]
    assert tests("only=left") == []
    assert tests("page=99") == ["test_another", "test_new", "test_old"], "the last page there is"
    for wrong in ("kind=other", "only=other", "page=0"):
        refused = client.get(f"{at}?{wrong}")
        assert refused.status_code in (400, 422), wrong
        assert client.get(f"/upgrade/{first}..{third}?{wrong}").status_code in (400, 422)


def test_two_nights_that_are_not_neighbours_are_put_together(client):
    value = client.get("/upgrade/2026-11-01..2026-11-03.json").json()
    UpgradePair.model_validate(value)
    found = {c["test"].rpartition("::")[2]: c["kind"] for c in value["changes"]}
    assert found == {"test_old": "body", "test_another": "renamed", "test_new": "new"}
    assert value["report"]["total"] == {"from": 2, "to": 3}
    assert sum(n for kind, n in value["report"]["kinds"].items() if kind != "gone") == 3


def test_markdown_to_paste_and_what_is_not_there(client, nights):
    first, second, _ = nights
    text = client.get(f"/upgrade/{first}..{second}.md")
    assert text.headers["content-type"].startswith("text/markdown")
    assert "**1 to evaluate, 1 of them for this device**" in text.text
    for at, words in (("nothing", "from..to"), ("1.0..2.0", "nobody compared 1.0 with 2.0")):
        missing = client.get(f"/upgrade/{at}.json")
        assert missing.status_code == 404, at
        assert words in missing.text
        assert client.get(f"/upgrade/{at}").status_code == 404


def test_hostile_names_stay_text(client, trunk, engine, settings):
    trunk.commit(3, old=11, another=2, new=3, x=5)
    look(engine, settings, 4)
    work(engine, settings, lambda test, commit: True)
    page = client.get("/upgrade/2026-11-01..2026-11-04?find=<script>alert(1)</script>").text
    assert "<script>alert" not in page


@pytest.mark.parametrize(
    ("nights", "said"),
    [
        ("", "No night has been judged yet"),
        ("?", "No night has been judged yet"),
        ("?g", "The newest night is good: 08"),
        ("bg", "The newest night is regressed, 09; 08 was the last good one"),
        ("bbg", "The newest night is regressed, 09, as is the one before it; 07 was the last good one"),
        ("b?bbg", "The newest night is regressed, 09, as are the 2 before it; 05 was the last good one"),
        ("b", "The newest night is regressed, 09"),
    ],
)
def test_the_sentence_about_nights(nights, said):
    good = {"g": True, "b": False, "?": None}
    rows = [{"night": f"{9 - n:02}", "good": good[word]} for n, word in enumerate(nights)]
    assert nights_sentence(rows) == said
