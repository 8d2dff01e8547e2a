"""Draws the pictures that sites show beside a link to a page (Open Graph): one a look, 1200 x 630, PNG, since those
sites take no SVG. Needs Chromium and Playwright (both of the tests' tools).

    python deploy/tools/cards.py

writes relay/web/static/cards/*.png. Run it after a change of the words (``CARD_SAYS``) or of what is drawn here.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from relay.web.pages_text import CARD_SAYS  # noqa: E402

TO = ROOT / "relay" / "web" / "static" / "cards"
SIGNS = {"good": ("✓", "#166b39", "#e6f4ec"), "bad": ("✕", "#b3261e", "#fbeae8"), "warn": ("!", "#8a5a00", "#fbf1dc"),
         "live": ("●", "#2f5fd0", "#e8eefb"), "mute": ("", "#1c1e24", "#f7f7f8")}  # fmt: skip
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{
  margin: 0; width: 1200px; height: 630px; box-sizing: border-box; padding: 0 90px;
  display: grid; align-content: center;
  border-left: 24px solid {ink}; background: {ground}; color: #1c1e24; font: 600 84px/1.2 system-ui, sans-serif;
}}
.name {{ font-size: 44px; color: #5b6070; margin-bottom: 34px; display: flex; align-items: center; gap: 26px; }}
.name i {{ width: 30px; height: 30px; background: #2f5fd0; border-radius: 6px; transform: rotate(45deg); }}
.says {{ color: {ink}; font-size: {size}px; }}
</style><div class="name"><i></i>CI relay</div><div class="says">{sign} {says}</div>"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium on PATH: apt-get install chromium")
    TO.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 630})
        for look, says in CARD_SAYS.items():
            sign, ink, ground = SIGNS[look]
            words = says.partition(": ")[2]
            words = words[0].upper() + words[1:]
            page.set_content(PAGE.format(ground=ground, ink=ink, sign=sign, says=words, size=150 if sign else 84))
            page.screenshot(path=TO / f"{look}.png")
        browser.close()


if __name__ == "__main__":
    main()
