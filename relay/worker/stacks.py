"""Stacks made quick that upstream asks for in every test.

``inspect.stack()``, several times in every operator test: for each frame it wants the frame's module, and where no
module has the frame's file (``<frozen runpy>``, by which this process was started, ``<string>``) it looks through all
that are loaded: 18 ms a call with torch, most of an operator test. The module of such a frame is None either way;
remembered, it costs nothing.

``torch.manual_seed``, in every test's ``setUp``: each accelerator that has not begun puts a call off, and keeps the
text of the stack in case that call fails later: most of a small test's time.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from types import FrameType, ModuleType

_NOWHERE = "<no module>"
"""a name that no module has, so that the answer is None"""
_GENERATED = ("<string>", "<frozen runpy>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def remember_frames_without_module() -> None:
    """For what generates code, and for the frames that are now below this one."""
    known: dict[str, str] = inspect.modulesbyfile
    names = list(_GENERATED)
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        names.append(frame.f_code.co_filename)
        frame = frame.f_back
    for name in names:
        if name.startswith("<"):
            known.setdefault(name, _NOWHERE)


class _NoStacks(ModuleType):
    """``traceback`` for a module that keeps stacks as text: there are none, everything else is as it was."""

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)

    @staticmethod
    def format_stack(*_: object) -> list[str]:
        return ["(not kept)\n"]


PUT_OFF = ("torch.cuda", "torch.xpu", "torch.mtia")
"""Modules that put calls off until their accelerator begins."""


def keep_no_stacks_of_calls_put_off() -> None:
    """The calls themselves stay as they are, and are made if the accelerator begins."""
    for name in PUT_OFF:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "traceback", None) is traceback:
            module.traceback = _NoStacks("traceback")  # type: ignore[attr-defined]
