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


SEEDS = """
import traceback
import torch
from relay.worker import stacks

real, asked = traceback.format_stack, []
traceback.format_stack = lambda *of: asked.append(of) or real(*of)
torch.manual_seed(1)
assert asked, "no stack is asked for: this is not needed any more"
stacks.keep_no_stacks_of_calls_put_off()
stacks.keep_no_stacks_of_calls_put_off()
asked.clear()
torch.manual_seed(2)
assert not asked, asked
((seed, stack),) = filter(None, torch.cuda._lazy_seed_tracker.get_calls())
assert "".join(stack) == "(not kept)\\n"
assert {"seed": 2} == {n: c.cell_contents for n, c in zip(seed.__code__.co_freevars, seed.__closure__)}
assert torch.cuda.traceback.format_exc is traceback.format_exc
"""


def test_a_seed_that_an_accelerator_puts_off_stays_put_off_and_no_stack_is_taken_for_it(tmp_path):
    (tmp_path / "seeds.py").write_text(SEEDS)
    done = subprocess.run([sys.executable, "-m", "seeds"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
