"""Faults of the environment: a message says that the machine, not the change and not the device, is to blame.

Told from the text, so a hostile change can print one. All that it wins is a neutral verdict, never a success.
"""

from __future__ import annotations

import re

_TOOLS = r"(?:g\+\+|gcc|c\+\+|clang\+\+|clang|nvcc|ninja|cmake|ld|dxp_standalone)"
_FAULTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("no-space", r"no space left on device|\bENOSPC\b|disk quota exceeded"),
        ("network", r"connection refused|temporary failure in name resolution|name or service not known"),
        ("network", r"network is unreachable|no route to host|\bECONNREFUSED\b"),
        ("compiler", rf"(?<![\w+]){_TOOLS}['\"]?:? (?:command )?not found"),
        ("compiler", r"no working c\+\+ compiler|InvalidCxxCompiler"),
        ("compiler", rf"no such file or directory: ['\"](?:[\w./-]*/)?{_TOOLS}['\"]"),
        ("compiler", r"(?:c\+\+|cxx) compiler (?:was )?not found|ninja is required to load"),
        ("library", r"cannot open shared object file"),
        ("oom-killer", r"out of memory: kill|oom[-_ ]kill|\boom killer\b|killed process \d+"),
        ("files", r"too many open files|read-only file system"),
    )
)
KILLED = re.compile(r"\bSIGKILL\b|signal 9\b", re.IGNORECASE)
"""nobody else sends SIGKILL to a test: our own limits are reported as timed out or as memory"""

MEANING = {
    "no-space": "the worker's disk is full",
    "network": "a service the test calls could not be reached",
    "compiler": "a compiler or build tool is missing on the worker",
    "library": "a shared library is missing on the worker",
    "oom-killer": "the worker ran out of memory and the kernel killed the process",
    "files": "the worker's file system or its limits are in the way",
}


def environment_fault(*texts: str | None) -> str | None:
    """The name of the first environment fault in the texts, None when there is none."""
    for text in texts:
        if text:
            for name, pattern in _FAULTS:
                if pattern.search(text):
                    return name
    return None
