"""The pages as each of their four users walks them, over a database that somebody else filled: what the demo left, or
the seeding command's. Every view is held against the same rules in light, in the dark, on a phone and on paper, and
photographed.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import outbound_servers
from page_browser import sync_api
from sqlalchemy import exists, select

from relay.demo.github_people import CLIENT_ID, CLIENT_SECRET
from relay.settings import Settings
from relay.store.db import open_engine, reading
from relay.store.schema import dispatch
from relay.web.app import create_app

OPERATOR = "oscar"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"width": 1280, "height": 900, "scheme": "light"},
    "dark": {"width": 1280, "height": 900, "scheme": "dark"},
    "phone": {"width": 390, "height": 844, "scheme": "light"},
    "print": {"width": 718, "height": 1000, "scheme": "light", "media": "print"},
}
"""Paper is A4 less a margin of 1 cm."""
RAW = re.compile(r"\bNone\b|\bnan\b|\bundefined\b|\[object |\{'|\bTrue\b|\bFalse\b|<[A-Za-z]+\.[A-Za-z]+: |datetime\(")
"""What Python or a script shows where somebody forgot to say it in words."""
WORDS = """() => {
  const left = document.querySelector('main').cloneNode(true)
  left.querySelectorAll('pre, code, .mono').forEach((e) => e.remove())
  return left.textContent }"""
SPOTS = """() => [...document.querySelectorAll('main :is(h1, h2, h3, button, .chip, dd)')]
  .filter((e) => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1
    && getComputedStyle(e).overflowX === 'hidden' && getComputedStyle(e).display !== 'inline'
    && !e.classList.contains('hidden') && !e.title)
  .map((e) => e.textContent.trim().slice(0, 60))"""
WIDE = """() => { const root = document.documentElement
  if (root.scrollWidth <= root.clientWidth) return []
  return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1)
    .slice(0, 3).map((e) => e.outerHTML.slice(0, 100)) }"""
HIDDEN = """() => [...document.querySelectorAll('main .scroll')]
  .filter((e) => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1 && !e.querySelector('table.grid'))
  .map((e) => e.textContent.trim().slice(0, 60))"""
"""Tables whose last columns nobody sees without pushing them; a grid of many jobs is meant to be pushed."""
BROKEN = """() => { const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT)
  const range = document.createRange(), found = []
  for (let seen = 0; walk.nextNode() && seen < 4000;) { const text = walk.currentNode
    if (!text.parentElement.getClientRects().length || text.parentElement.closest('.hidden, .logview, pre')) continue
    for (const word of text.data.matchAll(/(?<![A-Za-z0-9])[A-Za-z0-9]{3,14}(?![A-Za-z0-9])/g)) { seen += 1
      range.setStart(text, word.index); range.setEnd(text, word.index + word[0].length)
      const lines = [...range.getClientRects()].filter((r) => r.width > 0)
      if (new Set(lines.map((r) => Math.round(r.top / 8))).size > 1) found.push(text.data.trim().slice(0, 60)) } }
  return [...new Set(found)].slice(0, 5) }"""
"""Short words that a narrow column broke in two."""
AXE = Path(__file__).parent / "data/axe-core/axe.min.js"
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
BARE = """() => [...document.querySelectorAll('main section')].filter((e) =>
  e.getClientRects().length && !e.classList.contains('hidden')
    && ![...e.children].some((c) => !c.matches('h2, .head')
      && (c.textContent.trim() || c.querySelector('svg, canvas'))))
  .map((e) => e.textContent.trim().slice(0, 60))"""


@dataclass(frozen=True)
class Place:
    """Where the walks start: what somebody knows who was sent a link or heard a number."""

    upstream: str
    pr: int
    sha: str
    run: str
    backend: str


def place(database: str) -> Place:
    """The newest failed run of the relay's own workers on the commit that its pull request has now. LookupError where
    there is none."""
    engine = open_engine(database)
    later = dispatch.alias("later")
    ours = (
        dispatch.c.executor == "workers",
        dispatch.c.conclusion == "failure",
        dispatch.c.pr_number.is_not(None),
        ~exists().where(
            later.c.upstream == dispatch.c.upstream,
            later.c.pr_number == dispatch.c.pr_number,
            later.c.created_at > dispatch.c.created_at,
            later.c.head_sha != dispatch.c.head_sha,
        ),
    )
    with reading(engine) as conn:
        row = conn.execute(select(dispatch).where(*ours).order_by(dispatch.c.created_at.desc()).limit(1)).one_or_none()
    engine.dispose()
    if row is None:
        raise LookupError(f"{database}: no run of our own workers failed on a pull request, so nobody has a question")
    return Place(row.upstream, row.pr_number, row.head_sha, row.id, row.downstream)


@contextmanager
def site(folder: Path, database: str, artifacts: str, allowlist: str | None = None) -> Iterator[str]:
    """The relay's pages over ``database``, with a GitHub in ``folder`` to sign in at as an operator; -> the address."""
    listing = folder / "tour-allowlist.yml"
    listing.write_text(
        allowlist or f"L4:\n  - torch-spyre/torch-spyre: {{executor: workers, device: spyre, oncalls: [{OPERATOR}]}}\n"
    )
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with outbound_servers.local_github(folder) as github:
        github.hub.people.add(OPERATOR)
        settings = Settings(
            data_dir=folder,
            database_url=database,
            artifacts_url=artifacts,
            public_url=url,
            allowlist=str(listing),
            github_api_url=github.url,
            github_url=github.url,
            oauth_client_id=CLIENT_ID,
            oauth_client_secret=CLIENT_SECRET,
            operators=[OPERATOR],
            reads_per_minute=100_000,
            reads_burst=100_000,
        )
        with outbound_servers.serving(create_app(settings), listener):
            yield url


def of_demo(folder: Path, copy: Path) -> tuple[str, str, str]:
    """A copy of what a demo left in ``folder``: (database, artifacts, allowlist) to walk over."""
    for name in ("relay.sqlite3", "relay.sqlite3-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, copy / name)
    kept = folder / "artifacts"
    if kept.exists():
        shutil.copytree(kept, copy / "artifacts")
    return f"sqlite:///{copy / 'relay.sqlite3'}", str(copy / "artifacts"), (folder / "allowlist.yml").read_text()


@dataclass
class Tour:
    """One browser page over one site. ``faults`` grows by what a view showed that it should not."""

    page: Any
    url: str
    at: Place
    shots: Path | None = None
    axe: bool = False
    """Whether each view is held against axe, in light and in the dark. The page's context then is one that axe may
    work in: ``bypass_csp``."""
    faults: list[str] = field(default_factory=list)
    views: int = 0

    def see(self, name: str, *wanted: str) -> None:
        """Looks at what is shown now: ``wanted`` is said, in every look it fits, nothing is raw, bare or cut off."""
        main = self.page.get_by_role("main")
        for text in wanted:
            sync_api.expect(main).to_contain_text(text, ignore_case=True)
        self.views += 1
        raw = RAW.search(self.page.evaluate(WORDS))
        if raw:
            said = self.page.evaluate(WORDS)
            self.faults.append(f"{name}: raw: {said[max(0, raw.start() - 60) : raw.end() + 60].strip()!r}")
        self.faults += [f"{name}: nothing under the heading {bare!r}" for bare in self.page.evaluate(BARE)]
        for look, how in LOOKS.items():
            self.page.set_viewport_size({"width": how["width"], "height": how["height"]})
            self.page.emulate_media(color_scheme=how["scheme"], media=how.get("media", "screen"))
            self.faults += [f"{name} ({look}): wider than the screen: {wide}" for wide in self._wide()]
            self.faults += [f"{name} ({look}): cut off: {cut!r}" for cut in self.page.evaluate(SPOTS)]
            self.faults += [f"{name} ({look}): has to be pushed: {cut!r}" for cut in self.page.evaluate(HIDDEN)]
            self.faults += [f"{name} ({look}): a word is broken: {cut!r}" for cut in self.page.evaluate(BROKEN)]
            if self.axe and look in ("light", "dark"):
                self.faults += [f"{name} ({look}): axe: {one}" for one in axe_findings(self.page)]
            if self.shots is not None:
                self.page.screenshot(path=self.shots / f"{name}-{look}.png", full_page=True)
        first = next(iter(LOOKS.values()))
        self.page.set_viewport_size({"width": first["width"], "height": first["height"]})
        self.page.emulate_media(color_scheme=first["scheme"], media="screen")

    def _wide(self) -> list[str]:
        """What lies beyond the right edge, once the plots have taken the new width."""
        wide: list[str] = []
        for _ in range(20):
            wide = self.page.evaluate(WIDE)
            if not wide:
                break
            self.page.wait_for_timeout(100)
        return wide

    def places(self, name: str) -> None:
        self._leave(self.page.get_by_role("navigation", name="Site").get_by_role("link", name=name, exact=True).click)

    def follow(self, link: Any) -> None:
        self._leave(link.click)

    def find(self, text: str) -> None:
        self.page.get_by_role("searchbox").first.fill(text)
        self._leave(lambda: self.page.keyboard.press("Enter"))

    def _leave(self, act: Callable[[], None]) -> None:
        before = self.page.evaluate("performance.timeOrigin")
        act()
        # the page that comes, not the one that is left: a navigation can be told of before its page is there
        self.page.wait_for_function(
            "before => performance.timeOrigin !== before && document.readyState === 'complete'", arg=before
        )


def axe_findings(page: Any) -> list[str]:
    """What axe calls serious or critical on the page that is shown."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    result = page.evaluate("rules => axe.run(document, {runOnly: rules})", AXE_RULES)
    assert result["passes"], "axe looked at nothing"
    return [
        f"{one['id']} ({one['impact']}): " + "; ".join(node["html"][:160] for node in one["nodes"][:3])
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def pr_author(tour: Tour) -> None:
    """Was sent a link to the pull request; never heard of this device. Is it my change, and what do I do?"""
    page, at = tour.page, tour.at
    page.goto(f"{tour.url}/pr/{at.pr}?upstream={at.upstream}")
    tour.see("author-1-pr", at.backend, str(at.pr))
    page.locator(f'main a[href="/run/{at.run}"]').first.click()
    page.wait_for_url("**/run/*")
    page.wait_for_load_state()
    tour.see("author-2-run", "reason code")
    failing = page.locator('#causes a[href^="/test/"], #results a[href^="/test/"], #failing a[href^="/test/"]')
    failing.first.click()
    page.wait_for_url("**/test/**")
    tour.see("author-3-test", "selected")


def engineer(tour: Tour) -> None:
    """Eight in the morning, at a backend: what broke over night, since when, by whose change?"""
    page, at = tour.page, tour.at
    page.goto(tour.url)
    tour.see("engineer-1-status", at.backend)
    tour.places("Backends")
    tour.see("engineer-2-backends", at.backend)
    page.locator(f'main a[href="/crcr/{at.backend}"]').first.click()
    page.wait_for_url("**/crcr/*/*")
    tour.see("engineer-3-grid", at.backend)
    page.goto(f"{tour.url}/run/{at.run}?outcome=failed")
    tour.see("engineer-4-run-failed", "failed")
    page.locator('#causes a[href*="/log/"], #results a[href*="/log/"]').first.click()
    page.wait_for_url("**/log/**")
    here = page.locator(".logview #at")
    sync_api.expect(here).to_be_in_viewport()  # it opens at the failure, however much was printed before
    sync_api.expect(here).to_have_class("hit")
    tour.see("engineer-5-log", "where its error stands")


def ci_owner(tour: Tour) -> None:
    """A queue is stuck: where, since when, and what lets it move again."""
    page = tour.page
    page.goto(tour.url)
    tour.places("Queues")
    tour.see("owner-1-queues", "queue")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("link", name=f"Continue as {OPERATOR}").click()
    page.wait_for_url("**/queues")
    tour.places("Outbox")
    tour.see("owner-2-outbox")
    tour.places("Audit")
    tour.see("owner-3-audit")
    page.goto(f"{tour.url}/run/{tour.at.run}")
    tour.see("owner-4-run-signed-in", "run again")
    page.get_by_role("button", name="Sign out").click()
    sync_api.expect(page.get_by_role("link", name="Sign in")).to_be_visible()


def release_manager(tour: Tour) -> None:
    """Is the release fine on these devices, how sure are we, and what is still to be evaluated?"""
    page, at = tour.page, tour.at
    page.goto(tour.url)
    tour.find(at.sha[:10])
    tour.see("manager-1-search-sha")
    tour.find("nosuchthing")
    tour.see("manager-2-search-nothing", "nosuchthing")
    for name in ("Selection", "Config", "Upgrades"):
        tour.places(name)
        tour.see(f"manager-3-{name.casefold()}")
    pairs = page.locator('main a[href^="/upgrade/"]')
    if pairs.count():
        tour.follow(pairs.last)
        tour.see("manager-3-upgrade-pair", "to evaluate")
    with page.expect_navigation():
        page.get_by_role("contentinfo").get_by_role("link", name="About").click()
    tour.see("manager-4-about", "for programs")
    page.goto(f"{tour.url}/run/{'0' * 32}")
    tour.see("manager-5-not-there")


WALKS: dict[str, Callable[[Tour], None]] = {
    "PR author": pr_author,
    "backend engineer": engineer,
    "CI owner": ci_owner,
    "release manager": release_manager,
}
