"""The small upstream of the relay under chaos: one test file, and as many pull requests as are asked for, each of which
breaks the same test and leaves the others alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FILE = "test/test_small.py"
CLASS = "TestSmall"
SLOW_S = 0.4
_DTYPES = ("float32", "float16", "int64", "int32")
BROKEN = f"{FILE}::{CLASS}::test_steps_by_one"
VARIANTS = frozenset(
    [f"test_adds_spyre_{dtype}" for dtype in ("float32", "int64")]
    + ["test_steps_by_one_spyre_float32"]
    + [f"test_slow_spyre_{dtype}" for dtype in _DTYPES]
)
"""every variant that a pull request's run must have a result of"""

SOURCE = f"""
import time
import torch
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.testing._internal.common_device_type import instantiate_device_type_tests, dtypes

STEP = 1


def step(x):
    return x + STEP


class {CLASS}(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_adds(self, device, dtype):
        print("adds", dtype)
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual((step(x) - x).cpu(), torch.full((3,), STEP, dtype=dtype))

    @dtypes(torch.float32)
    def test_steps_by_one(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual(step(x).cpu(), torch.full((3,), 2, dtype=dtype))

    @dtypes({", ".join(f"torch.{one}" for one in _DTYPES)})
    def test_slow(self, device, dtype):
        time.sleep({SLOW_S})
        self.assertEqual(step(torch.ones(3, device=device, dtype=dtype)).dtype, dtype)


instantiate_device_type_tests({CLASS}, globals())

if __name__ == "__main__":
    run_tests()
"""


class SmallUpstream:
    """A git repository at ``path``; ``base`` is its main branch's commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "test").mkdir(parents=True)
        (path / FILE).write_text(SOURCE)
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("config", "gc.auto", "0")
        self._git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.base = self._commit("A small test file")

    def pull(self, number: int) -> str:
        """The head commit of a new pull request."""
        self._git("checkout", "--quiet", "--detach", self.base)
        (self.path / FILE).write_text(SOURCE.replace("STEP = 1", f"STEP = 2  # pull request {number}"))
        head = self._commit(f"Step by two ({number})")
        self._git("update-ref", f"refs/pull/{number}/head", head)
        return head

    def _commit(self, message: str) -> str:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", message)
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *args: str) -> str:
        who = {"NAME": "Ada Example", "EMAIL": "ada@example.org"}
        env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        env |= {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(["git", "-C", str(self.path), *args], env=env, capture_output=True, text=True, check=True)
        return done.stdout
