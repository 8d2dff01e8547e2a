"""Chromium on the pages: what refuses anything in its console, and what photographs. Needs the system's Chromium; set
RELAY_TEST_SCREENSHOTS to a folder, and the pages are photographed there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="SKIPPED LOUDLY: playwright is not installed")

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
ARGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
]  # fmt: skip
SHOTS = os.environ.get("RELAY_TEST_SCREENSHOTS")
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}


@contextmanager
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("SKIPPED LOUDLY: no Chromium on PATH; apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


class watched:
    """A page that fails the test for anything the policy refused, and for any error in its console. ``missing``: part
    of the address of a page that is not there, which the browser may say."""

    def __init__(self, browser: Any, *, wait_s: float = 10, missing: str | None = None, **options: Any) -> None:
        self.context = browser.new_context(**{**DESKTOP, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(wait_s * 1000)
        self.missing = missing
        self.said: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda e: self.said.append(str(e)))

    def _hear(self, message: Any) -> None:
        url = message.location["url"]
        if message.text.startswith("Failed to load resource") and self.missing is not None and self.missing in url:
            return
        if message.type in ("error", "warning"):
            self.said.append(f"{message.text} ({url})")

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: object, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert not self.said


def fits(page: Any, name: str) -> None:
    """The page is not wider than the screen."""
    wide, screen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= screen, f"{name} has to be pushed sideways"


def shot(page: Any, name: str) -> None:
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
