"""The pages in Chromium: live updates, the policy, keyboard, phone, dark. Needs the system's Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from page_browser import DESKTOP, chromium, fits, shot, sync_api, watched

from relay.store.schema import dispatch, shard

pytestmark = pytest.mark.browser

LOGIT = "test/test_ops.py::TestCommon::test_out"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with watched(browser) as page:
        yield page


def test_run_page_follows_the_run_without_a_reload(page: Any, server: str, world: Any) -> None:
    id, shards = world.running()
    page.goto(f"{server}/run/{id}")
    expect = sync_api.expect
    expect(page.locator("#verdict h1")).to_contain_text("161 variants done")
    page.evaluate("window.untouched = true")

    world.results(id, shards[1], LOGIT, "failed", 2, message="AssertionError: Tensor-likes are not close!")
    expect(page.locator("#verdict h1")).to_contain_text("Running 44 tests: 163 variants done, 2 failures so far")
    expect(page.locator("#failing")).to_contain_text("Tensor-likes are not close!")
    expect(page.locator("#results")).to_contain_text("failed 2")  # the table below follows

    page.locator("#results summary").first.click()
    row = page.locator(f"#shard-{shards[1]}")
    expect(row).to_contain_text("with a worker")
    world.set(shard, shards[1], state="done", finished_at=world.now)
    expect(row).to_contain_text("done")
    expect(page.locator("#results details").first).to_have_attribute("open", "")  # what a reader opened stays open

    world.set(
        dispatch, id, state="completed", conclusion="failure", code="regressions", ran_at=world.now,
        summary="2 variants of 1 test fail with this change.", closed_at=world.now + 1,
    )  # fmt: skip
    expect(page.locator("#verdict h1")).to_have_text("2 variants of 1 test fail with this change.")
    expect(page.locator("#verdict")).to_have_class("verdict bad")
    assert page.evaluate("window.untouched") is True, "the page was loaded again"


def test_results_are_filtered_in_place_and_the_address_follows(page: Any, server: str, world: Any) -> None:
    id = world.failed_run()
    page.goto(f"{server}/run/{id}")
    page.evaluate("window.untouched = true")
    page.locator("#results .chips a", has_text="failed 2").click()
    sync_api.expect(page.locator("#results tbody tr")).to_have_count(2)
    assert page.url.endswith("outcome=failed")
    assert page.evaluate("window.untouched") is True
    page.locator("#decisions .chips a", has_text="triage").click()
    sync_api.expect(page.locator("#decisions tbody")).to_contain_text("engages-device")
    page.go_back()
    page.go_back()
    sync_api.expect(page.locator("#results tbody tr")).to_have_count(25)


def test_pull_request_page_turns_to_its_conclusion(page: Any, server: str, world: Any) -> None:
    id, _ = world.running()
    page.goto(f"{server}/pr/171234")
    heading = page.locator("h1")
    sync_api.expect(heading).to_contain_text("is still running on torch-spyre/torch-spyre")
    world.set(dispatch, id, state="completed", conclusion="success", summary="All fine.", closed_at=world.now)
    sync_api.expect(heading).to_contain_text("This commit is fine on torch-spyre/torch-spyre")


def test_everything_is_reached_by_keyboard(page: Any, server: str, world: Any) -> None:
    id = world.failed_run()
    page.goto(f"{server}/pr/171234")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == f"/run/{id}":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/run/{id}")
    outline = page.evaluate(
        "() => { const a = document.querySelector('a.name'); a.focus(); return getComputedStyle(a).outlineStyle }"
    )
    assert outline != "none"


def test_pages_are_whole_without_javascript(browser: Any, server: str, world: Any) -> None:
    id = world.failed_run()
    with watched(browser, java_script_enabled=False) as page:
        page.goto(f"{server}/run/{id}")
        assert "fail with this change" in page.locator("h1").inner_text()
        page.locator("#results .chips a", has_text="failed 2").click()
        sync_api.expect(page.locator("#results tbody tr")).to_have_count(2)
        page.locator("#find").fill("171234")
        page.get_by_role("button", name="Find").click()
        assert "breaks 1 test on torch-spyre/torch-spyre" in page.locator("h1").inner_text()


PATHS = {
    "status": "/",
    "pr": "/pr/171234",
    "run": "/run/{failed}",
    "running": "/run/{running}",
    "test": "/test/" + LOGIT,
}
LOOKS: dict[str, dict[str, Any]] = {
    "desktop": DESKTOP,
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "device_scale_factor": 2,
    },
    "dark": {**DESKTOP, "color_scheme": "dark"},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "color_scheme": "dark"},
}
CONTRAST = """() => {
  const rgb = (c) => (c.match(/[\\d.]+/g) || []).map(Number)
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
  const lum = (c) => c.slice(0, 3).map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor)
    if (c.length && c[3] !== 0) return c } return [255, 255, 255] }
  const bad = []
  for (const e of document.querySelectorAll('main *, header *, footer *')) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())
    if (!text || !e.getClientRects().length) continue
    const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(behind(e))]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (ratio < 4.5) bad.push([ratio.toFixed(2), e.tagName, e.className, e.textContent.trim().slice(0, 40)].join(' '))
  }
  return [...new Set(bad)]
}"""


def test_a_reader_chooses_exact_times_and_no_single_keys(browser: Any, server: str, world: Any) -> None:
    """The choice holds on the next page; a letter that somebody types or says does nothing then."""
    world.job(world.failed_run(), "spyre", "completed", "failure")
    with watched(browser) as page:
        page.goto(f"{server}/crcr/torch-spyre/torch-spyre")
        when = page.locator("td time").first
        shown = "e => getComputedStyle(e, '::after').content + getComputedStyle(e).fontSize"
        assert when.evaluate(shown).startswith("none")
        page.get_by_role("button", name="Exact times").click()
        assert when.evaluate(shown) == f'"{when.get_attribute("datetime")}"0px'
        page.keyboard.press("j")
        assert page.locator("td.here").count() == 1
        page.get_by_role("button", name="Single keys").click()
        page.goto(f"{server}/crcr/torch-spyre/torch-spyre")
        assert page.locator("html.exact").count() == 1
        page.keyboard.press("j")
        page.keyboard.press("/")
        assert page.locator("td.here").count() == 0
        assert page.evaluate("document.activeElement.tagName") == "BODY"


@pytest.mark.parametrize("look", LOOKS)
def test_pages_fit_the_screen_and_can_be_read(browser: Any, server: str, world: Any, look: str) -> None:
    ids = {"failed": world.failed_run(), "running": world.running(pr_number=171300, head_sha="c" * 40)[0]}
    world.worker("emulator-1")
    world.worker("emulator-2", seen=2)
    world.worker("lab-b/emulator-7", seen=5000)
    world.delivery("ignored", code="draft", reason="the pull request is a draft")
    world.delivery(
        "ignored", action="labeled", code="label-not-watched", reason="the label 'topic: docs' asks for nothing"
    )
    fine = world.dispatch(
        "completed", downstream="acme/accelerator", executor="github", conclusion="success", device=None, level="L2",
        summary="4 jobs passed.", closed_at=world.now - 1,
    )  # fmt: skip
    world.job(fine, "unit (3.12)", "completed", "success", results={"passed": 1210, "failed": 0})
    world.dispatch(
        "completed", head_sha="0" * 40, created_at=world.now - 9000, conclusion="success", summary="Fine then.",
        closed_at=world.now - 8900,
    )  # fmt: skip
    with watched(browser, **LOOKS[look]) as page:
        for name, path in PATHS.items():
            page.goto(server + path.format(**ids))
            fits(page, name)
            assert page.evaluate(CONTRAST) == [], name
            shot(page, f"{name}-{look}")
