"""``inspect.stack()`` made quick: upstream's test library asks for it several times in every operator test.

For each frame it wants the frame's module, and where no module has the frame's file (``<frozen runpy>``, by which this
process was started, ``<string>``) it looks through all that are loaded: 18 ms a call with torch, most of an operator
test. The module of such a frame is None either way; remembered, it costs nothing.
"""

from __future__ import annotations

import inspect
import sys
from types import FrameType

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
