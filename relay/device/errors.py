"""What the device refuses, in the wording a real PrivateUse1 plugin and torch's dispatcher use.

Each is a subclass of the exception that the real one raises, so that upstream's tests and log patterns see no
difference, and carries what a classifier needs as attributes. `kind` is stable.
"""

from __future__ import annotations

import re


class DeviceError(RuntimeError):
    """The emulator itself is used in a way it cannot serve (not a limit of the device)."""

    kind = "device-misuse"


class UnsupportedOp(NotImplementedError):
    """An operator that the capability does not list. ``op`` is the qualified name, e.g. ``aten::lgamma.out``."""

    kind = "unsupported-op"

    def __init__(self, op: str, backend: str) -> None:
        super().__init__(
            f"Could not run '{op}' with arguments from the '{backend}' backend. This could be because the operator "
            "doesn't exist for this backend, or was omitted during the selective/custom build process (if using "
            "custom build)."
        )
        self.op = op
        self.backend = backend

    def __reduce__(self) -> tuple[type[UnsupportedOp], tuple[str, str]]:
        return type(self), (self.op, self.backend)


class UnsupportedLayout(UnsupportedOp):
    """A sparse, quantised or otherwise non-strided tensor. ``backend`` is the key the dispatcher looks up for it."""

    kind = "unsupported-layout"


class UnsupportedDtype(RuntimeError):
    """A dtype that the device's capability does not list. ``dtype`` is torch's C++ name for it, e.g. ``Double``."""

    kind = "unsupported-dtype"

    def __init__(self, dtype: str) -> None:
        super().__init__(f"Spyre backend does not support dtype {dtype}")
        self.dtype = dtype

    def __reduce__(self) -> tuple[type[UnsupportedDtype], tuple[str]]:
        return type(self), (self.dtype,)


class OutOfMemory(RuntimeError):
    """One tensor that the device's memory cannot hold, or the host's, which is all there is of it. Sizes in bytes."""

    kind = "resource-limit"

    def __init__(self, nbytes: int, capacity: int | None) -> None:
        total = f" Spyre 0 has a total capacity of {_gib(capacity)}." if capacity is not None else ""
        super().__init__(f"Spyre out of memory. Tried to allocate {_gib(nbytes)}.{total}")
        self.nbytes = nbytes
        self.capacity = capacity

    def __reduce__(self) -> tuple[type[OutOfMemory], tuple[int, int | None]]:
        return type(self), (self.nbytes, self.capacity)


def _gib(nbytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"


def kind_of(error: BaseException) -> str | None:
    """``unsupported-op``, ``unsupported-layout``, ``unsupported-dtype``, ``resource-limit`` or ``device-misuse``; None
    for anything else.

    Some refusals are the dispatcher's own (a sparse tensor is refused before any kernel of ours is asked), so its
    wording counts as well. Explicit causes are followed: upstream's tests wrap errors to name the sample input.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, DeviceError | UnsupportedOp | UnsupportedDtype | OutOfMemory):
            return seen.kind
        if isinstance(seen, NotImplementedError):
            found = _DISPATCHER.search(str(seen))
            if found:
                return UnsupportedLayout.kind if found.group(1) else UnsupportedOp.kind
        seen = seen.__cause__
    return None


_DISPATCHER = re.compile(r"with arguments from the '(\w*)(?:spyre|PrivateUse1)' backend")


class FallbackWarning(UserWarning):
    """An operator ran on the CPU because the device has no kernel for it; given once an operator and process."""
