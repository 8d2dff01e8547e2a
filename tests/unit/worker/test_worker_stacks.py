"""Stacks are quick to take, and say the same as before."""

from __future__ import annotations

import inspect
import subprocess
import sys

CODE = """
import inspect, sys
from relay.worker import stacks

class Counting(dict):
    looks = 0
    def copy(self):
        Counting.looks += 1
        return super().copy()

def shown():
    return [(f.filename, f.function, f.code_context) for f in inspect.stack()[1:]]

def deep():
    return eval("shown()", globals())

before = deep()
sys.modules = Counting(sys.modules)
deep()
looks, Counting.looks = Counting.looks, 0
stacks.remember_frames_without_module()
after = deep()
assert looks > 0, "every module is looked through: otherwise this is not needed any more"
assert Counting.looks == 0, Counting.looks
for old, new in zip(before[:-3], after[:-3]):
    assert old == new, (old, new)
"""


def test_no_frame_has_every_module_looked_through_and_stacks_say_the_same(tmp_path):
    (tmp_path / "asks.py").write_text(CODE)
    done = subprocess.run([sys.executable, "-m", "asks"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_module_of_generated_code_stays_unknown():
    from relay.worker import stacks

    stacks.remember_frames_without_module()
    frame = eval("__import__('sys')._getframe()")
    assert inspect.getmodule(frame, "<string>") is None
