"""A shard that repeats: every variant alone, every time in a fresh process, and what a failure says of its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runner_cli import methods_of

from relay.errors import BadRequest
from relay.worker.spec import parse_shard

pytestmark = pytest.mark.torch

SOURCE = """
import os
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests

seen = []


def helper(value):
    raise ValueError(f"no {value}")


class TestTwice(TestCase):
    def test_alone(self, device):
        self.assertEqual(seen, [])
        seen.append(1)
        print(f"pid {os.getpid()}")
        raise AssertionError(str(os.getpid()))

    def test_marks(self, device):
        self.assertEqual(seen, [])
        seen.append(1)

    def test_deep(self, device):
        helper(torch.ones(1, device=device).cpu().item())


instantiate_device_type_tests(TestTwice, globals())
"""


def test_every_attempt_is_a_process_of_its_own(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out.jsonl"
    (tree / "test").mkdir(parents=True)
    (tree / "test/test_twice.py").write_text(SOURCE)
    shard = {
        "device": "spyre",
        "runtime": {"kind": "tests-only", "torch": "2.13.0"},
        "tests": methods_of(SOURCE, "test/test_twice.py"),
        "repeat": 3,
    }
    (tmp_path / "spec.json").write_text(json.dumps({"shard": shard, "done": []}))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", tmp_path / "spec.json", "--tree", tree, "--out"]
    subprocess.run([*map(str, command), str(out)], check=True, timeout=120)
    *lines, last = map(json.loads, out.read_text().splitlines())
    assert "report" in last
    attempts = sorted((line["variant"], line.get("attempt", 0)) for line in lines)
    assert attempts == [(f"test_{n}_spyre", i) for n in ("alone", "deep", "marks") for i in range(3)]
    by_variant: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        by_variant.setdefault(line["variant"], []).append(line)
    assert [line["outcome"] for line in by_variant["test_marks_spyre"]] == ["passed"] * 3
    pids = {line["message"].split()[1] for line in by_variant["test_alone_spyre"]}
    assert len(pids) == 3
    deep = by_variant["test_deep_spyre"][0]["message"]
    assert deep.startswith("ValueError: no 1.0\n(at test/test_twice.py:11, from test/test_twice.py:26")


def test_a_repeat_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadRequest, match="repeat is 0"):
        parse_shard({"tests": [], "repeat": 0})
    cut_off = parse_shard({"tests": [], "repeat": 3}, done=["test/x.py::T::v"])
    assert cut_off.done == frozenset()
