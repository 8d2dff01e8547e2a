"""``@skipIf(not TEST_CUDA, ...)`` and decorators of that meaning: the test needs another device to be there."""

from __future__ import annotations

import re

from selector.discover.conditions import SKIPS, truth
from selector.discover.records import UNKNOWN, Decorator
from selector.triage.backends import category_of
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("needs-other-device", "needs-unclear")

_FLAG = re.compile(
    r"^(?:TEST|HAS|IS)_(?:WITH_)?(CUDA|MULTIGPU|CUDNN|ROCM|CUDA_GRAPH|CUDAMALLOCASYNC|CUSPARSE\w*|TRITON_CUDA|MPS|XPU)$"
)
"""upstream's flags that are false where there is no other device, with what they are about"""
_ASKED = re.compile(r"^(?:torch\.)?(?:backends\.)?(cuda|mps|xpu)\.is_available\(\)$")
_REQUIRES = {
    "requires_cuda": "cuda",
    "requires_cuda_and_triton": "cuda",
    "requires_multigpu": "cuda",
    "requires_xpu": "xpu",
    "skipIfNoCUDA": "cuda",
    "onlyIfCUDA": "cuda",
    "requires_nccl": "cuda",
    "requires_mps": "mps",
}
_OWN = frozenset({"TEST_PRIVATEUSE1", "TEST_ACCELERATOR"})
"""upstream's flags that are true where a device of this kind is"""
_KNOWN = frozenset({"cpu", "cuda", "mps", "xpu"})
_FAMILY = {"MPS": "mps", "XPU": "xpu"}


def judge(subject: Subject) -> Opinion | None:
    unclear: Opinion | None = None
    for decorator in subject.decorators:
        wanted = _wanted(decorator, subject)
        if wanted:
            fact = subject.place("decorator", f"@{decorator.name}({', '.join(decorator.args[:1])})", decorator.line)
            here = wanted & subject.device_names
            reason = f"it skips itself where there is no {' or '.join(sorted(wanted))}"
            reason = f"it skips itself where there is a {' or '.join(sorted(here))} device" if here else reason
            return Opinion(Ruling.IRRELEVANT, category_of(wanted), "needs-other-device", reason, (fact,), 0.95)
        if wanted is None:
            fact = subject.place("decorator", f"a skip that depends on {', '.join(decorator.names)}", decorator.line)
            reason = "whether it is skipped depends on other devices"
            unclear = unclear or Opinion(Ruling.ASK, None, "needs-unclear", reason, (fact,), 0.5)
    return unclear


def _wanted(decorator: Decorator, subject: Subject) -> frozenset[str] | None:
    """The devices without any of which the test skips itself, or those of this kind where it does so; none: it does
    not; None: that is not to be seen."""
    known = {name: device for name, device in _REQUIRES.items() if device not in subject.device_names}
    if decorator.name in known:
        return frozenset({known[decorator.name]})
    if decorator.name not in SKIPS or not decorator.args:
        return frozenset()
    named: set[str] = set()

    def present(flag: str) -> bool | None:
        if flag.rpartition(".")[2] in _OWN and subject.capability.device not in _KNOWN:
            named.add("privateuse1")
            return True
        device = _device(flag)
        if device is None or device in subject.device_names:
            return None
        named.add(device)
        return False

    holds = truth(decorator.args[0], present)
    if holds is not None:
        return frozenset(named) if holds is (decorator.name == "skipIf") else frozenset()
    # what is left open is not about devices (the system, a version of Python), unless there is more than can be read
    unread = decorator.args[0] == UNKNOWN or "..." in decorator.args[0]
    return None if unread and any(map(_FLAG.match, decorator.names)) else frozenset()


def _device(flag: str) -> str | None:
    asked = _ASKED.match(flag)
    if asked is not None:
        return asked[1]
    match = _FLAG.match(flag.rpartition(".")[2])
    return _FAMILY.get(match[1], "cuda") if match is not None else None
