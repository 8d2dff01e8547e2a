"""What other sites show beside a link to a page: title, sentence, and a picture that says what the page says."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from relay.web.pages_sentences import pr_word
from relay.web.pages_text import CARD_SAYS


def card(client: Any, path: str) -> dict[str, str]:
    page = client.get(path).text
    return dict(re.findall(r'<meta (?:property|name)="((?:og|twitter):[\w:]+)" content="([^"]*)">', page))


def test_the_picture_says_what_the_page_says(client: Any, world: Any) -> None:
    failed, (running, _) = world.failed_run(), world.running(pr_number=171300, head_sha="c" * 40)
    world.job(failed, "spyre", "completed", "failure")
    client.app.state.crcr_summaries.forget()
    fine = world.dispatch("completed", downstream="acme/accelerator", executor="github", conclusion="success",
                          device=None, level="L2", pr_number=171301, head_sha="d" * 40,
                          closed_at=world.now)  # fmt: skip
    world.job(fine, "unit", "completed", "success")
    looks = {
        f"/run/{failed}": "bad", f"/run/{running}": "live", f"/run/{fine}": "good", "/pr/171234": "bad",
        "/pr/171300": "live", "/pr/171301": "good", "/crcr/acme/accelerator": "good", "/crcr": "bad",
        "/about": "mute", "/config": "mute", "/pr/999999": "mute",
    }  # fmt: skip
    for path, look in looks.items():
        found = card(client, path)
        base = client.app.state.settings.url
        assert re.fullmatch(rf"{re.escape(base)}/static/cards/{look}\.[0-9a-f]{{12}}\.png", found["og:image"]), path
        assert found["og:image:alt"] == CARD_SAYS[look]
        assert found["twitter:card"] == "summary_large_image"
        assert found["og:title"]
        assert found["og:description"]
        answer = client.get(found["og:image"].removeprefix(base))
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG\r\n\x1a\n")
        size = struct.unpack(">II", answer.content[16:24])
        assert size == (int(found["og:image:width"]), int(found["og:image:height"])) == (1200, 630)


@pytest.mark.parametrize(
    ("dispatches", "word"),
    [
        ([("completed", "success"), ("completed", "failure"), ("running", None)], "failure"),
        ([("completed", "success"), ("verifying", "failure")], "failure"),  # known before it is closed
        ([("completed", "success"), ("verifying", "success")], "running"),
        ([("completed", "success"), ("failed", None), ("completed", "neutral")], "failed"),
        ([("completed", "success"), ("completed", "neutral")], "neutral"),
        ([("completed", "success"), ("superseded", None)], "success"),
        ([("superseded", None)], "superseded"),
    ],
)
def test_the_word_for_all_backends_is_what_needs_eyes_first(
    dispatches: list[tuple[str, str | None]], word: str
) -> None:
    assert pr_word([{"state": state, "conclusion": conclusion} for state, conclusion in dispatches]) == word
