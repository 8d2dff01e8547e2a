"""The runner on a device that a package registers, as real hardware's plugin does (card_plugin)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from card_plugin import installed
from runner_cli import methods_of

from relay.worker import adapters, namespaces, sandbox

pytestmark = pytest.mark.torch

TESTS = """
import os
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

{at_import}


class TestCard(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_adds(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual((x + x).cpu(), torch.full((3,), 2, dtype=dtype))
        self.assertEqual(x.device, torch.device("card:0"))
        import torch_card
        self.assertEqual(torch_card.began, os.getpid())

    def test_fails(self, device):
        self.assertEqual((torch.ones(2, device=device) + 1).cpu(), torch.ones(2))

    def test_leaves(self, device):
        os._exit(0)

    def test_on_after_the_card_left(self, device):
        self.assertEqual(torch.ones(2, device=device).add(1).cpu().tolist(), [2.0, 2.0])


instantiate_device_type_tests(TestCard, globals())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("plugin"))


def run(
    tmp: Path,
    site: Path,
    at_import: str = "",
    device: str = "card",
    plugin: str = "torch_card",
    nodes: tuple[str, ...] = (),
) -> Any:
    """(exit status, the lines by variant, the last line) of a shard of TESTS."""
    source = TESTS.replace("{at_import}", at_import)
    (tmp / "tree" / "test").mkdir(parents=True)
    (tmp / "tree" / "test" / "test_card.py").write_text(source)
    shard = {
        "device": device,
        "runtime": {"kind": "tests-only", "torch": "2.13.0"},
        "tests": methods_of(source, "test/test_card.py"),
        "limits": {"variant_s": 30, "shard_s": 240, "memory_mb": 4096},
    }
    (tmp / "spec.json").write_text(json.dumps({"shard": shard, "plugin": plugin, "nodes": nodes}))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", tmp / "spec.json", "--tree", tmp / "tree"]
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [*map(str, command), "--out", str(tmp / "out")], env=env, capture_output=True, text=True, timeout=300
    )
    *lines, last = map(json.loads, (tmp / "out").read_text().splitlines())
    return done.returncode, {line["variant"]: line for line in lines}, last


def test_a_devices_plugin_is_loaded_in_the_host_and_begins_in_the_test_processes(tmp_path: Path, site: Path) -> None:
    status, lines, last = run(tmp_path, site)
    assert status == 0, last
    assert {variant: line["outcome"] for variant, line in lines.items()} == {
        "test_adds_card_float32": "passed",
        "test_adds_card_int64": "passed",
        "test_fails_card": "failed",
        "test_leaves_card": "crashed",
        "test_on_after_the_card_left_card": "passed",
    }
    # the emulated device's counter says nothing of another one
    assert {line["kernels"] for line in lines.values()} == {None}
    assert last["report"]["leaks"] == [], "that the device began is no variant's doing"


def test_the_nodes_of_a_device_are_in_its_sandbox_and_no_others(tmp_path: Path, site: Path) -> None:
    if not sandbox.probe(tmp_path).processes:
        pytest.skip("this machine lets no ordinary user make namespaces: /dev is the machine's own")
    there = sorted(str(node) for node in adapters.nodes_of(("*",)) if node.name not in namespaces.DEVICES)
    if not there:
        pytest.skip("this machine's /dev has only what every sandbox has")
    at_import = f"import os, stat\nassert stat.S_ISCHR(os.stat('/dev/{there[0]}').st_mode)"
    for name, nodes, errors in (("without", (), 1), ("with", (there[0],), 0)):
        status, lines, last = run(tmp_path / name, site, at_import, nodes=nodes)
        assert (status, len(last["report"]["errors"])) == (0, errors), last
        assert bool(lines) is not bool(errors)
    status, lines, last = run(tmp_path / "absent", site, nodes=("no-such-card*",))
    assert (status, lines) == (3, {})
    assert "needs /dev/no-such-card*" in last["failed"]


@pytest.mark.parametrize("at_import", ["torch.card.current_device()"])
def test_a_file_that_begins_the_device_at_import_is_refused(tmp_path: Path, site: Path, at_import: str) -> None:
    status, lines, last = run(tmp_path, site, at_import)
    assert (status, lines) == (3, {})
    assert "initialised before a test process was forked" in last["failed"]


@pytest.mark.parametrize(
    ("device", "plugin", "words"),
    [
        ("board", "torch_card", "registers the device card, not board"),
        ("card", "torch_bored", "needs the package torch_bored, which is not installed"),
    ],
)
def test_a_worker_whose_packages_and_device_do_not_go_together_says_so(
    tmp_path: Path, site: Path, device: str, plugin: str, words: str
) -> None:
    status, lines, last = run(tmp_path, site, device=device, plugin=plugin)
    assert (status, lines) == (3, {})
    assert words in last["failed"]
