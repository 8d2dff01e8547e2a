"""What `make demo` promises: it ends with the right verdict, it is quick the second time, and it leaves nothing."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from demo_run import DemoRun

pytestmark = pytest.mark.demo


def temporary_files():
    return set(Path(tempfile.gettempdir()).glob("relay-*"))


def page(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read()


def test_once_ends_by_itself_with_the_right_verdict(tmp_path):
    before = temporary_files()
    demo = DemoRun(tmp_path / "demo", "--once")
    try:
        assert demo.finish() == 0, demo.said()
    finally:
        demo.stop()
    assert "Every step happened and the verdict is right" in demo.said()
    assert demo.rows("select downstream, count(*) from dispatch group by 1 order by 1") == [
        ("example-org/backend-ci", 1),
        ("torch-spyre/torch-spyre", 1),
    ], "the webhook was sent three times, twice of them at the same instant"
    (runtime,) = demo.rows("select json_extract(runtime, '$.kind') from plan")[0]
    assert runtime == "overlay"
    engaged = demo.rows("select count(*) from result where side = 'head' and kernels > 0")[0][0]
    assert engaged > 0
    assert demo.processes() == []
    assert temporary_files() <= before


def test_ctrl_c_leaves_no_process_and_no_file(tmp_path):
    before = temporary_files()
    folder = tmp_path / ("deep-" * 20) / "demo"  # deep enough that the broker's socket must lie elsewhere
    folder.parent.mkdir()
    demo = DemoRun(folder)
    try:
        demo.wait_for(lambda: demo.rows("select 1 from shard where state = 'leased'"))
        running = demo.processes()
        assert len(running) >= 7, "broker, web, pump, two Celery workers, emulator, GitHub"
        os.kill(demo.process.pid, signal.SIGINT)
        assert demo.finish(30) == 0, demo.said()
    finally:
        demo.stop()
    deadline = time.monotonic() + 5
    while demo.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert demo.processes() == []
    assert temporary_files() <= before


def test_a_second_run_shows_the_page_soon(tmp_path):
    folder = tmp_path / "demo"
    first = DemoRun(folder, "--once")
    try:
        assert first.finish() == 0, first.said()
    finally:
        first.stop()
    (folder / "up.json").unlink()
    second = DemoRun(folder)
    try:
        url = second.ready()["url"]
        second.wait_for(lambda: b"torch-spyre/torch-spyre" in page(url), 20)
    finally:
        second.stop()
