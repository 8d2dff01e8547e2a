"""Two people walk the pages in Chromium: the author of a pull request who never heard of this device, and a backend
engineer at eight in the morning. Set RELAY_TEST_SCREENSHOTS to a folder and each step is photographed there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from page_browser import DESKTOP, chromium, fits, shot, sync_api, watched

from relay.domain.readiness import Sample, measure
from relay.store.schema import dispatch, level_proposal, quarantine

pytestmark = pytest.mark.browser

LOGIT = "test/test_ops.py::TestCommon::test_out"
PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 800}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


class Walk:
    """A page that photographs its steps, and refuses one that is wider than the screen, or anything in the console."""

    def __init__(self, browser: Any, name: str, options: dict[str, Any]) -> None:
        self.watched = watched(browser, **options)
        self.page = self.watched.page
        self.name, self.steps = name, 0

    def step(self, what: str) -> None:
        self.steps += 1
        fits(self.page, what)
        assert not self.watched.said, what
        shot(self.page, f"{self.name}-{self.steps}-{what}")


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_author_of_a_pull_request_finds_out_what_broke_and_why(
    browser: Any, server: str, world: Any, settings: Any, options: dict[str, Any]
) -> None:
    run = world.failed_run_with_log()
    fine = world.dispatch("completed", downstream="acme/accelerator", executor="github", device=None, level="L2",
                          conclusion="success", summary="4 jobs passed.", closed_at=world.now)  # fmt: skip
    world.job(fine, "unit", "completed", "success")
    walk = Walk(browser, "author-phone" if options is PHONE else "author", options)
    page, expect = walk.page, sync_api.expect

    page.goto(f"{server}/pr/171234")
    expect(page.locator("h1")).to_have_text("This commit breaks 1 test on torch-spyre/torch-spyre.")
    broken = page.locator("article.backend").first
    expect(broken).to_contain_text("passes without the change")
    expect(broken).to_contain_text("torch/_refs/__init__.py:logit")
    expect(broken).to_contain_text("the change edits the Python reference of logit")
    expect(broken).to_contain_text("the same without it")
    walk.step("pr")

    expect(broken).to_contain_text(f"relay run --tree YOUR_PYTORCH {LOGIT} --base ")
    expect(broken.get_by_role("link", name="what the first failure printed")).to_be_visible()
    walk.page.get_by_role("link", name="the whole run").click()
    page.wait_for_url(f"**/run/{run}")
    expect(page.locator("#verdict h1")).to_contain_text("2 variants of 1 test fail with this change")
    first = page.locator(".cause").first
    expect(first).to_contain_text("On the base commit")
    expect(first).to_contain_text("2 passed")
    expect(page.locator("#gantt rect.good")).not_to_have_count(0)
    expect(page.locator("#device .uplot canvas")).to_be_visible()
    walk.step("run")

    first.get_by_role("link", name="log").first.click()
    page.wait_for_url("**/log/**")
    here = page.locator("#at")
    expect(here).to_contain_text("failed")
    expect(here).to_be_in_viewport()
    expect(page.locator(".logview .hit .f31")).to_have_text("tensor")
    assert page.locator(".logview li").count() < 4000, "a window, not all of it"
    walk.step("log")

    page.go_back()
    page.locator(".cause").first.locator(f"a[href='/test/{LOGIT}']").click()
    expect(page.locator("#history")).to_contain_text("runs over all ops")
    expect(page.locator("#configured")).to_contain_text("upstream.yaml")
    walk.step("test")


def many_jobs(world: Any) -> None:
    """Three weeks of a backend: eight jobs a commit, one of which fails now and then, one run superseded."""
    for k in range(12):
        at = world.now - k * 80_000.0
        id = world.dispatch(
            "superseded" if k == 3 else "completed", downstream="acme/accelerator", executor="github", device=None,
            level="L2", head_sha=f"{k:040x}", pr_number=171000 + k, created_at=at, closed_at=at + 2000,
            conclusion=None if k == 3 else "failure" if k % 4 == 0 else "success", summary="8 jobs completed",
        )  # fmt: skip
        for n, name in enumerate(("build", "unit", "ops (1)", "ops (2)", "dynamo", "inductor", "distributed", "lint")):
            world.job(
                id, name, "completed", "failure" if name == "ops (2)" and k % 4 == 0 else "success", queued_at=at,
                started_at=at + 60 + n, completed_at=at + 900 + 50 * n, workflow="CI" if n else "Build",
            )  # fmt: skip
    measured = measure("L2", [Sample(str(n), "success" if n % 5 else "failure", 60, 900, 1500) for n in range(30)])
    world.put(level_proposal, {"downstream_key": "acme/accelerator", "downstream": "acme/accelerator", "level": "L2",
                               "measured": measured.as_map(), "updated_at": world.now - 60})  # fmt: skip


def test_the_backend_engineer_sees_what_needs_eyes_and_walks_the_grid_by_keyboard(
    browser: Any, server: str, world: Any, settings: Any
) -> None:
    world.failed_run_with_log()
    many_jobs(world)
    world.worker("emulator-1")
    world.put(quarantine, {"device": "spyre", "test": LOGIT, "variant": "", "reason": "flaky on trunk",
                           "evidence": "4 of 90", "issue": "", "until": world.now + 9e5,
                           "created_at": world.now})  # fmt: skip
    walk = Walk(browser, "engineer", {**DESKTOP, "color_scheme": "dark"})
    page, expect = walk.page, sync_api.expect

    page.goto(server)
    expect(page.locator("#backends tbody tr").first).to_contain_text("failure")
    expect(page.locator("#health")).to_contain_text("Sweeper")
    page.evaluate("window.untouched = true")
    id, _ = world.running(pr_number=171999, head_sha="c" * 40)
    expect(page.locator("#running")).to_contain_text("#171999")  # by the event stream
    world.set(dispatch, id, state="completed", conclusion="success", summary="Fine.", closed_at=world.now)
    expect(page.locator("#running")).to_contain_text("Nothing is running")
    assert page.evaluate("window.untouched") is True, "the page was loaded again"
    walk.step("status")

    page.get_by_role("link", name="pass rates, times and levels").click()
    row = page.locator("tbody tr", has_text="acme/accelerator")
    expect(row).to_contain_text("96.6 %")  # 85 of 88 jobs: the superseded run's are left out
    expect(row).to_contain_text("L3: 1 missing")
    walk.step("backends")

    row.locator("a[href='/crcr/acme/accelerator']").click()
    expect(page.locator("#standing tr", has_text="passed")).to_contain_text("not met")
    expect(page.locator(".grid tbody tr")).to_have_count(11)
    expect(page.locator("#times .uplot canvas")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("l")
    page.keyboard.press("l")
    expect(page.locator(".grid .here")).to_have_count(1)
    name = page.evaluate("document.activeElement.getAttribute('title')")
    assert name.startswith("CI / dynamo: success"), name
    page.keyboard.press("p")
    page.wait_for_url(re.compile("pin=CI"))
    expect(page.locator(".grid thead th").nth(1)).to_contain_text("CI / dynamo")
    page.get_by_label("only failing").check()
    page.wait_for_url(re.compile("only=failing"))
    expect(page.locator(".grid tbody tr")).to_have_count(3)
    expect(page.locator(".grid thead th").nth(1)).to_contain_text("CI / ops (2)")
    walk.step("grid")
    page.locator(".grid a.mark.bad").first.click()
    page.wait_for_url("**/run/**")
    expect(page.locator("#gantt")).to_contain_text("ops (2)")
    walk.step("jobs")

    page.goto(f"{server}/test/{LOGIT}")
    expect(page.locator(".verdict")).to_contain_text("in quarantine")
    expect(page.locator("#quarantine")).to_contain_text("flaky on trunk")
    walk.step("flaky")
