"""``torch.Generator(device="spyre")``.

The C++ hook that makes a backend's generator cannot be overridden from Python, and torch's class cannot be patched. The
kernels draw from CPU generators anyway, so the device's generator *is* one that says it is on the device; to be found
under ``torch.Generator`` that name is replaced by a class which makes plain ones for every other device.
"""

from __future__ import annotations

from typing import Any

import torch

from relay.device.memory import NAME

_Plain: Any = torch._C.Generator


class _Meta(type(_Plain)):  # type: ignore[misc]
    """``isinstance(g, torch.Generator)`` goes on holding for every generator."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Plain)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return _Plain in subclass.__mro__


class Generator(_Plain, metaclass=_Meta):  # type: ignore[misc]
    """See the module. A device generator has its own state, seeded as the CPU's are."""

    def __new__(cls, device: torch.device | str = "cpu") -> Any:
        if torch.device(device).type != NAME:
            return _Plain(device)
        return super().__new__(cls, "cpu")

    @property
    def device(self) -> torch.device:
        """Always ``spyre:0``."""
        return torch.device(NAME, 0)

    def clone_state(self) -> Generator:
        """A new device generator at the same point of its sequence."""
        other: Generator = Generator(NAME)
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.get_state(),)


def _restore(state: torch.Tensor) -> Generator:
    generator: Generator = Generator(NAME)
    generator.set_state(state)
    return generator


def install() -> None:
    """Put the class in torch's place."""
    Generator.__qualname__, Generator.__module__ = "Generator", "torch"
    torch.Generator = Generator
