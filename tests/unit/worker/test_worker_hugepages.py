"""Memory in huge pages: what is said to lie in such does, and nothing in it changes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CODE = """
import mmap, re
from relay.worker import hugepages

room = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
room[:] = bytes(range(256)) * (len(room) // 256)
gathered = hugepages.collapse()
assert room[:] == bytes(range(256)) * (len(room) // 256)
(kept,) = re.findall(r"AnonHugePages: *([0-9]+) kB", open("/proc/self/smaps_rollup").read())
print(gathered, int(kept) * 1024)
"""


def test_what_is_gathered_lies_in_huge_pages_and_is_unchanged():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    gathered, lies = map(int, done.stdout.split())
    assert gathered <= lies
    release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    able = release >= (6, 1) and setting.exists() and "[never]" not in setting.read_text()
    assert (gathered > 0) == able
