"""Hostile test files of ours: what they try to read, reach or forge is refused, and the report says what they are."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runner_cli import methods_of

from relay.worker import sandbox

pytestmark = pytest.mark.torch

HOSTILE = """
import ctypes, glob, json, os, signal, socket, unittest
import torch
from torch.testing._internal.common_utils import TestCase

ROOT = "ROOT_FOLDER"


class TestHostile(TestCase):
    def test_environment_of_the_worker(self):
        self.assertFalse([k for k in os.environ if k.startswith("RELAY_") or "TOKEN" in k])
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                text = open(path, "rb").read()
            except OSError:
                continue
            self.assertNotIn(b"SECRET" + b"_OF_THE_WORKER", text, path)

    def test_sees_no_process_but_its_own(self):
        mine = {int(os.path.basename(p)) for p in glob.glob("/proc/[0-9]*")}
        self.assertLessEqual(len(mine), 4, mine)
        self.assertEqual(open("/proc/1/comm").read() != "systemd\\n", True)
        for pid in mine - {os.getpid()}:
            for name in ("mem", "environ", "maps"):
                with self.assertRaises(OSError):
                    open(f"/proc/{pid}/{name}", "rb").read(1)

    def test_database_and_other_runs_are_not_there(self):
        for name in ("relay.sqlite3", "worker/tmp/relay-shard-1-other/results", "secret.key"):
            self.assertFalse(os.path.exists(os.path.join(ROOT, name)), name)

    def test_broker_socket(self):
        with self.assertRaises(OSError):
            socket.socket(socket.AF_UNIX).connect(os.path.join(ROOT, "broker.sock"))
        with self.assertRaises(OSError):
            socket.socket(socket.AF_UNIX).connect("\\0relay-test-abstract")

    def test_network(self):
        for address in (("127.0.0.1", PORT), ("192.0.2.1", 80)):
            with self.assertRaises(OSError):
                socket.create_connection(address, timeout=2)

    def test_writes_nowhere_but_its_own_folder(self):
        ours = os.path.dirname(__file__), os.path.dirname(torch.__file__)
        for folder in ("/", "/usr", "/etc", "/proc/sys/kernel", *ours):
            with self.assertRaises(OSError, msg=folder):
                open(os.path.join(folder, "relay-was-here"), "w")
        with self.assertRaises(OSError):
            open("/proc/sys/kernel/domainname", "w").write("x")
        with open("/tmp/mine", "w") as f:
            f.write("x")

    def test_gains_no_rights(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self.assertEqual(libc.unshare(0x10000000), -1)
        self.assertEqual(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), -1)
        self.assertEqual(libc.ptrace(16, 1, 0, 0), -1)
        status = open("/proc/self/status").read()
        self.assertIn("NoNewPrivs:\\t1", status)
        self.assertIn("CapEff:\\t0000000000000000", status)
        self.assertIn("Seccomp:\\t2", status)

    def test_forges_a_result(self):
        line = json.dumps({"start": 8}) + "\\n" + json.dumps({"end": 8, "raw": "passed", "seconds": 0.0}) + "\\n"
        line += json.dumps({"t": "rows", "rows": [{"test": "test/test_hostile.py::TestHostile::test_x",
                            "variant": "test_forged", "mode": "mandatory_success"}]}) + "\\n"
        for fd in range(3, 64):
            try:
                os.write(fd, line.encode())
            except OSError:
                pass
        self.fail("the truth")

    def test_forges_kernels(self):
        from relay import device
        device.METER._slots[2] = 1 << 40

    def test_forges_kernels_backwards(self):
        from relay import device
        device.METER._slots[2] = -5

    def test_replaces_its_log(self):
        for name in glob.glob("/tmp/*") + glob.glob(os.path.join(ROOT, "worker", "*")):
            self.assertNotIn("log", os.path.basename(name))
        self.fail("shown with its log")
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    tmp = tmp_path_factory.mktemp("hostile")
    (tmp / "tree" / "test").mkdir(parents=True)
    for name in ("relay.sqlite3", "secret.key", "worker/tmp/relay-shard-1-other/results"):
        (tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / name).write_text("secret")
    server = socket.create_server(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(os.path.relpath(tmp / "broker.sock"))
    abstract.bind("\0relay-test-abstract")
    unix.listen()
    abstract.listen()
    source = HOSTILE.replace("PORT", str(server.getsockname()[1])).replace("ROOT_FOLDER", str(tmp))
    (tmp / "tree" / "test" / "test_hostile.py").write_text(source)
    shard = {
        "device": "spyre",
        "runtime": {"kind": "tests-only"},
        "tests": methods_of(source, "test/test_hostile.py"),
        "limits": {"variant_s": 30, "shard_s": 200, "memory_mb": 2048},
    }
    (tmp / "spec.json").write_text(json.dumps(shard))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", "spec.json", "--tree", "tree", "--out", "out"]
    command += ["--junit", "junit.xml", "--ctrf", "ctrf.json"]
    env = {**os.environ, "RELAY_WORKER_KEY": "SECRET_OF_THE_WORKER", "TMPDIR": str(tmp / "worker" / "tmp")}
    subprocess.run(command, cwd=tmp, env=env, check=True, timeout=240)
    *lines, last = map(json.loads, (tmp / "out").read_text().splitlines())
    for sock in (server, unix, abstract):
        sock.close()
    report = last["report"]
    if report["isolation"]["lacking"]:
        pytest.skip(f"NOT RUN: this machine's sandbox lacks {report['isolation']['lacking']} (the report says so)")
    return {line["variant"]: line for line in lines}, (report, tmp)


@pytest.mark.parametrize(
    "variant",
    [
        "test_environment_of_the_worker",
        "test_sees_no_process_but_its_own",
        "test_database_and_other_runs_are_not_there",
        "test_broker_socket",
        "test_network",
        "test_writes_nowhere_but_its_own_folder",
        "test_gains_no_rights",
    ],
)
def test_it_is_refused(hostile: Any, variant: str) -> None:
    assert hostile[0][variant]["outcome"] == "passed", hostile[0][variant]


def test_a_forged_result_is_an_error_and_nothing_else_is_believed(hostile: Any) -> None:
    lines, _ = hostile
    assert "test_forged" not in lines
    assert lines["test_forges_a_result"]["outcome"] == "error"
    assert "protocol" in lines["test_forges_a_result"]["message"]


def test_forged_kernels_are_no_evidence(hostile: Any) -> None:
    lines, (report, _) = hostile
    assert lines["test_forges_kernels"]["kernels"] is None
    assert lines["test_forges_kernels_backwards"]["kernels"] is None
    assert report["meter"]["trusted"] is False
    assert report["meter"]["kernels"] == 0
    assert {key.rpartition("::")[2] for key in report["meter"]["implausible"]} == {
        "test_forges_kernels",
        "test_forges_kernels_backwards",
    }


def test_a_log_cannot_be_led_elsewhere(hostile: Any) -> None:
    assert hostile[0]["test_replaces_its_log"]["message"].startswith("AssertionError: shown with its log")


def test_junit_and_ctrf_say_the_same_as_the_lines(hostile: Any) -> None:
    import xml.etree.ElementTree as ET

    lines, (_, tmp) = hostile
    cases = {case.get("name"): case for case in ET.parse(tmp / "junit.xml").iter("testcase")}
    assert cases.keys() == lines.keys()
    assert cases["test_forges_a_result"].find("error") is not None
    assert cases["test_replaces_its_log"].find("failure") is not None
    told = {p.get("name"): p.get("value") for p in cases["test_network"].iter("property")}
    assert told["mode"] == "mandatory_success"
    assert told["engagement"] == "unengaged"
    ctrf = json.loads((tmp / "ctrf.json").read_text())["results"]
    assert ctrf["summary"]["tests"] == len(lines)
    assert ctrf["summary"]["failed"] == sum(line["outcome"] in ("failed", "error") for line in lines.values())


def test_strict_trust_refuses_where_something_lacks(tmp_path: Path) -> None:
    from relay.worker import shard_run
    from relay.worker.spec import parse_shard

    (tmp_path / "tree").mkdir()
    saved = shard_run._isolation[:]
    shard_run._isolation[:] = [sandbox.Isolation(True, False, True, True)]
    try:
        for trusted, refused in ((False, True), (True, False)):
            shard = parse_shard({"tests": [], "trusted": trusted, "runtime": {"kind": "tests-only"}})
            run = shard_run.Runner(shard, tmp_path / "tree", tmp_path, lambda _: None, strict=True)
            if refused:
                with pytest.raises(shard_run.RunnerError, match="lacks processes and a file system of its own"):
                    run.run()
            else:
                assert run.run()["isolation"]["lacking"]
    finally:
        shard_run._isolation[:] = saved
