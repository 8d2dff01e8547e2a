"""``@skipIf(not TEST_CUDA, ...)`` and decorators of that meaning: the test needs another device to be there."""

from __future__ import annotations

import re

from selector.discover.records import Decorator
from selector.triage.backends import category_of
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("needs-other-device", "needs-unclear")

_FLAGS = re.compile(r"^(?:TEST|HAS|IS)_(CUDA|MULTIGPU|CUDNN|MPS|XPU|ROCM|CUDA_GRAPH|CUSPARSE\w*|TRITON_CUDA)$")
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
_FAMILY = {"MPS": "mps", "XPU": "xpu"}


def judge(subject: Subject) -> Opinion | None:
    unclear: Opinion | None = None
    for decorator in subject.decorators:
        device = _REQUIRES.get(decorator.name) or _condition(decorator)
        if device is not None and device not in subject.device_names:
            fact = subject.place(
                "decorator", f"@{decorator.name}({decorator.args[0] if decorator.args else ''})", decorator.line
            )
            reason = f"it skips itself where there is no {device}"
            return Opinion(Ruling.IRRELEVANT, category_of([device]), "needs-other-device", reason, (fact,), 0.95)
        if decorator.name in ("skipIf", "skipUnless") and any(map(_FLAGS.match, decorator.names)):
            fact = subject.place("decorator", f"a skip that depends on {', '.join(decorator.names)}", decorator.line)
            reason = "whether it is skipped depends on other devices"
            unclear = unclear or Opinion(Ruling.ASK, None, "needs-unclear", reason, (fact,), 0.5)
    return unclear


def _condition(decorator: Decorator) -> str | None:
    first = decorator.args[0] if decorator.args else ""
    name = first.removeprefix("not ").rpartition(".")[2]
    wanted = first.startswith("not ") if decorator.name == "skipIf" else decorator.name == "skipUnless"
    if (
        decorator.name not in ("skipIf", "skipUnless")
        or not wanted
        or first.startswith("not ") != (decorator.name == "skipIf")
    ):
        return None
    match = _FLAGS.match(name)
    return _FAMILY.get(match.group(1), "cuda") if match else None
