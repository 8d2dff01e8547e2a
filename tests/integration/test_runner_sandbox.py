"""What upstream's code can reach from inside the runner: not the network, not the worker's secrets, not all memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.worker import sandbox

pytestmark = pytest.mark.torch

HOSTILE = """
import glob, os, socket, subprocess, tempfile, unittest
import torch
from torch.testing._internal.common_utils import TestCase


class TestHostile(TestCase):
    def test_reaches_the_network(self):
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", PORT), timeout=2)
        with self.assertRaises(OSError):
            socket.create_connection(("192.0.2.1", 80), timeout=2)

    def test_can_talk_to_itself(self):
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname(), timeout=5)
        client.close()

    def test_reads_the_secret(self):
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as f:
                    text = f.read()
            except OSError:
                continue
            self.assertNotIn(b"SECRET" + b"_OF_THE_WORKER", text, path)

    def test_takes_all_memory(self):
        kept = []
        while True:
            kept.append(torch.ones(64 << 20))

    def test_writes_into_the_tree(self):
        with self.assertRaises(OSError):
            open(__file__, "a")
        with self.assertRaises(OSError):
            open(os.path.join(os.path.dirname(__file__), "new.py"), "w")

    def test_leaves_a_process_behind(self):
        with open(os.path.join(tempfile.gettempdir(), "mine"), "w") as f:
            f.write("x")
        subprocess.Popen(["sleep", "1234.5"], start_new_session=True)

    def test_prints_a_lot(self):
        print("y" * 100_000)
        self.fail("z" * 100_000)
"""
NAMES = [line.split("(")[0].split()[1] for line in HOSTILE.splitlines() if line.strip().startswith("def test")]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Path]:
    import socket

    tmp = tmp_path_factory.mktemp("hostile")
    (tmp / "tree" / "test").mkdir(parents=True)
    (tmp / "room").mkdir()
    server = socket.create_server(("127.0.0.1", 0))
    source = HOSTILE.replace("PORT", str(server.getsockname()[1]))
    (tmp / "tree" / "test" / "test_hostile.py").write_text(source)
    sandbox.make_read_only(tmp / "tree")
    spec = {
        "device": "spyre",
        "runtime": {"kind": "tests-only", "torch": "2.13.0"},
        "tests": [f"test/test_hostile.py::TestHostile::{name}" for name in NAMES],
        "limits": {"variant_s": 30, "shard_s": 200, "memory_mb": 700},
    }
    (tmp / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", "spec.json", "--tree", "tree", "--out", "out"]
    # the worker that starts a runner hides itself, as python -m relay.worker does
    start = f"from relay.worker import sandbox; sandbox.hide_process(); import subprocess; subprocess.run({command!r})"
    env = {**os.environ, "RELAY_WORKER_KEY": "SECRET_OF_THE_WORKER", "TMPDIR": str(tmp / "room")}
    subprocess.run([sys.executable, "-c", start], cwd=tmp, env=env, check=True, timeout=240)
    lines = [json.loads(line) for line in (tmp / "out").read_text().splitlines()]
    sandbox.remove_tree(tmp / "tree")
    server.close()
    return {line["variant"]: line for line in lines[:-1]}, lines[-1]["report"], tmp


def test_the_network_is_cut_off_where_the_kernel_allows(hostile: Any) -> None:
    lines, report, _ = hostile
    if report["isolation"]["network"] == "open":
        pytest.skip("NOT RUN: this kernel lets nobody make a network namespace (the report says so)")
    assert lines["test_reaches_the_network"]["outcome"] == "passed", lines["test_reaches_the_network"]
    assert lines["test_can_talk_to_itself"]["outcome"] == "passed", lines["test_can_talk_to_itself"]


def test_the_workers_secrets_cannot_be_read(hostile: Any) -> None:
    lines, report, _ = hostile
    if report["isolation"]["network"] == "open":
        pytest.skip("NOT RUN: without a user namespace the runner by hand cannot hide what it was started with")
    assert lines["test_reads_the_secret"]["outcome"] == "passed", lines["test_reads_the_secret"]


def test_a_test_that_takes_all_memory_costs_itself_only(hostile: Any) -> None:
    lines, _, _ = hostile
    assert lines["test_takes_all_memory"]["outcome"] in ("failed", "crashed")
    assert set(lines) == set(NAMES)


def test_the_tree_cannot_be_written_to(hostile: Any) -> None:
    lines, _, _ = hostile
    assert lines["test_writes_into_the_tree"]["outcome"] == "passed", lines["test_writes_into_the_tree"]


def test_nothing_is_left_behind(hostile: Any) -> None:
    _, _, tmp = hostile
    assert list((tmp / "room").iterdir()) == []
    running = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and sandbox.alive(int(entry.name)):
            try:
                running.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
    assert not [line for line in running if b"1234.5" in line]


def test_what_a_test_prints_is_bounded(hostile: Any) -> None:
    lines, _, _ = hostile
    line = lines["test_prints_a_lot"]
    assert line["outcome"] == "failed"
    assert len(line["message"]) <= 4096
    assert 0 < len(line["log_tail"]) <= 8192
