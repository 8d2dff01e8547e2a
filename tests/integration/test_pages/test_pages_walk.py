"""The pages as the CI owner and the release manager walk them, axe's findings on every page, and what scripts weigh."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import page_seed_upgrades
import page_tour
import pytest
from page_browser import chromium, fits, shot, sync_api, watched

from relay.settings import Settings
from relay.store import test_names
from relay.store.schema import dispatch, outbox, pull_request

pytestmark = pytest.mark.browser

TEST = "test/test_ops.py::TestCommon::test_out"
MOST_SCRIPT = 60_000
SAID = """() => { const main = document.querySelector('main').cloneNode(true)
  main.querySelectorAll('.uplot, time').forEach((e) => e.remove())
  return main.textContent.replace(/\\s+/g, ' ') }"""
TOLD = re.compile(r"\d[\d.,]*( (ms|s|min|h|days))*( \d+ (s|min))?")
"""Numbers and durations: two loads are not of one moment."""
HOSTILE = (
    "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=2>\"'`><svg/onload=window.pwned=3>"
    "<a href=javascript:window.pwned=4>x</a>\x1b[31mred\x1b[0m\u202eevil {{ 83*997 }} ${window.pwned=5} <hx-x hx-get=/>"
    "<div hx-get='/act/x' hx-trigger=load hx-on:load='window.pwned=6'>"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api.expect.set_options(timeout=20_000)
    with chromium() as browser:
        yield browser
    sync_api.expect.set_options(timeout=5_000)  # as it is by itself: other modules are not to wait longer


@pytest.fixture
def site(world: Any, tmp_path: Path) -> Iterator[str]:
    """The relay behind a real server, with a GitHub to sign in at and an operator."""
    listing = 'L4:\n  - torch-spyre/torch-spyre: {executor: workers, device: spyre, oncalls: ["@ana"]}\n'
    with page_tour.site(tmp_path, Settings(data_dir=tmp_path).database, "", listing) as url:
        yield url


def sign_in(page: Any, login: str) -> None:
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("link", name=f"Continue as {login}").click()


def test_ci_owner_finds_the_stuck_queue_and_mends_it(browser: Any, site: str, world: Any) -> None:
    """Eight in the morning: something is stuck. Status says so, queues say where, the outbox lets an operator act."""
    world.running()
    for n in range(3):
        world.effect(None, "hud", state="parked", stream=f"hud:{n}", last_error=f"HTTP 403: {n}")
    with watched(browser, wait_s=30) as page:
        page.goto(site)
        sync_api.expect(page.get_by_role("main")).to_contain_text("no worker alive")
        page.get_by_role("navigation", name="Site").get_by_role("link", name="Queues").click()
        sync_api.expect(page.get_by_role("heading", level=1)).to_have_text("Stuck: nobody works on shards.spyre")
        sync_api.expect(page.get_by_role("main")).to_contain_text("relay doctor")
        shot(page, "walk-queues-stuck")
        world.worker("emulator-1", seen=0)
        sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text("1 shard waiting", timeout=15_000)

        assert page.get_by_role("link", name="Outbox").count() == 0, "nobody has signed in"
        sign_in(page, "oscar")
        sync_api.expect(page).to_have_url(f"{site}/queues")  # back where it began
        page.get_by_role("link", name="Outbox").click()
        shot(page, "walk-outbox")
        boxes = page.get_by_role("checkbox")
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.get_by_role("button", name="Send the chosen again").click()
        sync_api.expect(page.get_by_role("status").first).to_contain_text("2 effects: retry done.")
        page.get_by_role("checkbox").first.check()
        page.get_by_label("Reason").fill("the dashboard moved")
        page.get_by_role("button", name="Drop the chosen").click()
        sync_api.expect(page.get_by_role("main")).to_contain_text("Nothing is parked")
        page.get_by_role("link", name="Audit").click()
        sync_api.expect(page.get_by_role("main")).to_contain_text("the dashboard moved")
        shot(page, "walk-audit")
        page.get_by_role("button", name="Sign out").click()
        sync_api.expect(page.get_by_role("link", name="Sign in")).to_be_visible()
        page.goto(f"{site}/outbox")
        assert "/login/oauth/authorize" in page.url, "an operator's page leads to the sign-in"
    with world.engine.connect() as conn:
        states = [row.state for row in conn.execute(outbox.select().where(outbox.c.kind == "hud")).all()]
    assert sorted(states) == ["dropped", "due", "due"]


def test_release_manager_reads_without_knowing_the_device(browser: Any, site: str, world: Any) -> None:
    """Is the pull request that everybody talks about fine? From the search box by keyboard to the reason, to paper."""
    world.job(world.failed_run(), "unit", "completed", "failure")
    with watched(browser, wait_s=30) as page:
        page.goto(site)
        page.keyboard.press("/")
        page.keyboard.type("#171234")
        page.keyboard.press("Enter")
        page.wait_for_url("**/pr/171234")
        sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text(
            "breaks 1 test on torch-spyre/torch-spyre"
        )
        page.locator('a[href^="/run/"]').first.click()
        sync_api.expect(page.get_by_role("main")).to_contain_text("runs over all ops, and logit's reference changed")
        page.get_by_role("link", name="This page as JSON").click()
        assert '"conclusion":"failure"' in page.content()
        page.go_back()
        page.emulate_media(media="print")
        assert not page.get_by_role("search").first.is_visible(), "paper has no search box"
        shot(page, "walk-run-print")
        page.emulate_media(media="screen")
        page.get_by_role("searchbox").first.fill("torch-sp")
        page.keyboard.press("Enter")
        page.wait_for_url("**/crcr/torch-spyre/torch-spyre")
        page.get_by_role("link", name="Config").click()
        sync_api.expect(page.get_by_role("main")).to_contain_text("Backends on the allowlist")
        page.get_by_role("link", name="About").click()
        sync_api.expect(page.get_by_role("main")).to_contain_text("healthy")


def stories(world: Any) -> dict[str, str]:
    """Everything that a page can be about; -> every page by name."""
    failed, (running, _) = world.failed_run_with_log(), world.running(pr_number=171300, head_sha="c" * 40)
    tests = [f"test/test_part.py::TestPart::test_{n:03}" for n in range(60)]
    pair = page_seed_upgrades.seed(world.engine, tests, world.now, nights=12, of_release=60)
    world.worker("emulator-1", seen=0)
    world.worker("lab-b/emulator-7", seen=5000)
    world.delivery("ignored", code="draft", reason="the pull request is a draft")
    world.effect(None, "hud", state="parked", last_error="HTTP 403 from the HUD", last_status=403, attempts=8)
    fine = world.dispatch("completed", downstream="acme/accelerator", executor="github", conclusion="success",
                          device=None, level="L2", summary="4 jobs passed.", closed_at=world.now - 1)  # fmt: skip
    world.job(fine, "unit (3.12)", "completed", "success", results={"passed": 1210, "failed": 0})
    world.job(failed, "spyre", "completed", "failure")
    world.asked(failed, ("instructions", "You read a change."), ("model", "Relevant."))
    with world.engine.begin() as conn:
        test_names.note(conn, [TEST, f"{TEST}_warning"])
    return {
        "status": "/", "crcr": "/crcr", "backend": "/crcr/acme/accelerator", "pr": "/pr/171234",
        "run": f"/run/{failed}", "running": f"/run/{running}", "jobs": f"/run/{fine}", "test": f"/test/{TEST}",
        "log": world.log_of(failed), "agents": f"/run/{failed}/agents", "quality": "/quality", "upgrade": "/upgrade",
        "pair": pair, "queues": "/queues", "config": "/config", "outbox": "/outbox",
        "audit": "/audit", "search": "/search?q=test_out", "search-none": "/search?q=nosuchthing", "about": "/about",
        "not-found": "/nowhere", "bad-request": f"/run/{failed}?outcome=nowhere",
    }  # fmt: skip


STATUS = {"not-found": 404, "bad-request": 400}


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_axe_finds_nothing_serious_on_any_page(browser: Any, site: str, world: Any, look: str) -> None:
    paths = stories(world)
    options = {"viewport": {"width": 390, "height": 844}, "is_mobile": True} if look == "phone" else {}
    found: list[str] = []
    # axe is brought by the debugger, which asks no policy of the page; what axe itself makes must pass, too
    options = {"bypass_csp": True, "color_scheme": "dark" if look == "dark" else "light", **options}
    with watched(browser, wait_s=30, missing="nowhere", **options) as page:
        page.goto(site)
        sign_in(page, "oscar")
        for name, path in paths.items():
            answer = page.goto(site + path)
            assert answer.status == STATUS.get(name, 200), name
            fits(page, name)
            found += [f"{name}: {one}" for one in page_tour.axe_findings(page)]
            shot(page, f"{name}-{look}")
        page.context.clear_cookies()
    assert not found, "\n".join(found)


def test_every_page_says_the_same_without_scripts(browser: Any, site: str, world: Any) -> None:
    """What a page says stands in it as it comes; scripts add plots, and nothing that could be read only with them."""
    paths, said = stories(world), {}
    with (
        watched(browser, wait_s=30, missing="nowhere") as whole,
        watched(browser, wait_s=30, missing="nowhere", java_script_enabled=False) as plain,
    ):
        for page in (whole, plain):  # both before anything is read: a sign-in is in the audit
            page.goto(site)
            sign_in(page, "oscar")
        for name, path in paths.items():
            for scripts, page in ((True, whole), (False, plain)):
                page.goto(site + path)
                assert page.locator("h1").count() == 1, name
                said[name, scripts] = TOLD.sub("#", page.evaluate(SAID))
    assert {name for name in paths if said[name, True] != said[name, False]} == set()
    assert min(len(text) for text in said.values()) > 60


def test_hostile_strings_stay_strings_on_every_page(browser: Any, site: str, world: Any) -> None:
    """What people outside can write (titles, names of jobs, tests and workers, logs, links) on every page, run."""
    evil = HOSTILE
    test = f"test/test_x.py::TestX::test_{evil[:60].replace(':', '').replace('/', '')}"
    id, shards = world.running(pr_title=evil, author=evil[:200])
    done = world.failed_run_with_log(evil, pr_title=evil, author=evil[:200])
    world.results(id, shards[1], test, "failed", 2, message=evil, log_tail=evil, op=evil[:120], reason=evil)
    world.decision(id, "discover", test, "impacted", "op-edited", evil)
    world.asked(done, ("tool", evil), ("model", evil), reason=evil)
    for run in (id, done):
        triage = {"category": evil[:60], "confidence": "high", "summary": evil, "suspected_upstream": None}
        links = {"url": "javascript:window.pwned=7", "artifact_url": f"https://x/{evil}"}
        more = {"workflow": evil[:290], "results": {evil[:40]: 1}, "triage": triage}
        world.job(run, evil[:290], "completed", "failure", **links, **more)
    world.effect(id, "check_run", state="parked", last_error=evil, response={"html_url": "data:text/html,x"})
    world.delivery("ignored", reason=evil, code="x", event=evil[:60])
    world.worker(evil[:120], queue=evil[:60])
    world.set(dispatch, id, summary=evil, error=evil)
    world.put(pull_request, {"upstream_key": "pytorch/pytorch", "number": 171234, "title": evil, "head_sha": "a" * 40,
                             "base_ref": evil, "labels": [evil], "draft": False, "open": True, "told_at": "",
                             "heard_at": time.time()})  # fmt: skip
    with world.engine.begin() as conn:
        test_names.note(conn, [test, test + "2"])
    with watched(browser, wait_s=30, missing="nowhere") as page:
        page.goto(site)
        sign_in(page, "oscar")
        names = ["/", "/crcr", "/crcr/torch-spyre/torch-spyre", "/pr/171234", f"/run/{id}", f"/run/{done}",
                 world.log_of(done), f"/run/{done}/agents",
                 f"/test/{quote(test)}", "/quality", "/queues", "/outbox", "/audit", "/search?q=test_x.py",
                 f"/search?q={quote(evil)}", f"/config?find={quote(evil[:150])}",
                 f"/nowhere/{quote(evil)}"]  # fmt: skip
        for path in names:
            answer = page.goto(site + path)
            assert answer.status == (404 if path.startswith("/nowhere") else 200), path
            page.wait_for_timeout(50)
            assert page.evaluate("window.pwned") is None, path
            assert page.locator("main script, main img, main svg[onload]").count() == 0, path
            links = page.eval_on_selector_all("a[href]", "all => all.map(a => a.getAttribute('href'))")
            assert [link for link in links if not re.match(r"(/|#|\?|https://)", link)] == [], path
            assert str(83 * 997) not in page.locator("body").inner_text(), path


def test_no_page_brings_more_than_60_kb_of_script(site: str, world: Any) -> None:
    import httpx2

    weights = {}
    with httpx2.Client(base_url=site, trust_env=False, follow_redirects=True) as client:
        for name, path in stories(world).items():
            if name in ("outbox", "audit"):
                continue  # these lead to the sign-in
            source = client.get(path, headers={"accept": "text/html"}).text
            scripts = re.findall(r'<script[^>]*src="([^"]+)"', source)
            bodies = [client.get(url, headers={"accept-encoding": "identity"}).content for url in scripts]
            weights[name] = sum(len(gzip.compress(body, 9)) for body in bodies)
            assert all("eval(" not in body.decode() for body in bodies if b"uPlot" in body)
    print("\ngzipped scripts of a page: " + ", ".join(f"{name} {n:,}" for name, n in sorted(weights.items())))
    assert min(weights.values()) > 10_000
    assert max(weights.values()) <= MOST_SCRIPT
