"""More of what the demo promises: a second run is quick to show its page, and a deep folder is no obstacle."""

from __future__ import annotations

import os
import signal
import time
import urllib.request

import page_browser
import page_tour
import pytest
from demo_run import DemoRun

pytestmark = [pytest.mark.demo, pytest.mark.torch, pytest.mark.broker, pytest.mark.browser]


def page(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read()


def walk_the_pages(folder, tmp_path):
    """What the demo left answers each of the four users; tests/bench/tour.py keeps the pictures."""
    copy = tmp_path / "copy"
    copy.mkdir()
    database, artifacts, allowlist = page_tour.of_demo(folder, copy)
    place = page_tour.place(database)
    with page_tour.site(copy, database, artifacts, allowlist) as url, page_browser.chromium() as browser:
        for walk in page_tour.WALKS.values():
            with page_browser.watched(browser, wait_s=30, missing="/run/0000") as page:
                tour = page_tour.Tour(page, url, place)
                walk(tour)
            assert tour.views >= 3
            assert tour.faults == []


def test_three_deliveries_make_one_run_each_and_a_second_play_shows_its_page(tmp_path):
    folder = tmp_path / "demo"
    first = DemoRun(folder, "--once")
    try:
        assert first.finish() == 0, first.said()
    finally:
        first.stop()
    assert first.rows("select downstream, count(*) from dispatch group by 1 order by 1") == [
        ("example-org/backend-ci", 1),
        ("torch-spyre/torch-spyre", 1),
    ]
    assert first.rows("select json_extract(runtime, '$.kind') from plan") == [("overlay",)]
    assert first.rows("select count(*) > 0 from result where side = 'head' and kernels > 0") == [(1,)]
    walk_the_pages(folder, tmp_path)
    (folder / "up.json").unlink()
    second = DemoRun(folder)
    try:
        url = second.ready()["url"]
        second.wait_for(lambda: b"torch-spyre/torch-spyre" in page(url), 20)
    finally:
        second.stop()


def test_the_socket_of_a_deep_folder_lies_elsewhere_and_is_removed(tmp_path):
    folder = tmp_path / ("deep-" * 20) / "demo"
    folder.parent.mkdir()
    demo = DemoRun(folder)
    try:
        demo.ready()
        assert len(demo.processes()) >= 7, "broker, web, pump, two Celery workers, emulator, GitHub"
        os.kill(demo.process.pid, signal.SIGINT)
        assert demo.finish(30) == 0, demo.said()
    finally:
        demo.stop()
    deadline = time.monotonic() + 5
    while demo.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert demo.processes() == []
    assert list(demo.tmp.iterdir()) == []
