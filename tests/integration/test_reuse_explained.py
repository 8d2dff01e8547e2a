"""``relay config explain`` agrees with the runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import relay.reuse

pytestmark = pytest.mark.torch
PROPERTY = Path(__file__).parents[1] / "explain_against_runtime.py"


def test_what_is_explained_is_what_is_done() -> None:
    hook = Path(next(iter(relay.reuse.__path__))) / "torch_test_device.py"
    env = os.environ | {
        "TORCH_TEST_DEVICES": str(hook),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(PROPERTY), "150"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout.split()[-1]) > 3000
