"""Streams and events. The device is in-order and synchronous, so there is nothing to wait for; events record the
modelled time, and streams remember which one is current.

torch's own class asks the device's guard to wait for an event and to time it, which the guard of a Python backend
refuses. So ``torch.Event`` is replaced by a class that makes `Event` for this device and torch's for every other.
"""

from __future__ import annotations

from typing import Any

import torch

from relay.device.memory import NAME
from relay.device.meter import METER


class Stream(torch.Stream):  # type: ignore[misc]
    """``torch.spyre.Stream``."""

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> Any:
        if ids:
            return super().__new__(cls, priority=priority, **ids)
        return super().__new__(cls, device=torch.device(NAME, 0), priority=priority)

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one, on this stream."""
        event = event if event is not None else Event()
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Nothing to wait for: what was recorded has run."""

    def wait_stream(self, stream: torch.Stream) -> None:
        """Nothing to wait for: what was queued has run."""


_Plain: Any = torch.Event


class _Meta(type(_Plain)):  # type: ignore[misc]
    """``isinstance(e, torch.Event)`` goes on holding for every event."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Plain)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return _Plain in subclass.__mro__


class AnyEvent(_Plain, metaclass=_Meta):  # type: ignore[misc]
    """What ``torch.Event`` names: makes the event of the device asked for, this one if none is."""

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        if device is not None and torch.device(device).type != NAME:
            return _Plain(device, **options)
        return Event(**options)


class Event(_Plain):  # type: ignore[misc]
    """``torch.spyre.Event``. Time between two events is *modelled* time, an estimate."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        if interprocess:
            raise NotImplementedError(f"{NAME}: events cannot be shared between processes")
        return super().__new__(cls, torch.device(NAME, 0), enable_timing=enable_timing, blocking=blocking)

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timed = enable_timing
        self._at_ns: int | None = None

    def record(self, stream: torch.Stream | None = None) -> None:
        """Mark this point of the stream."""
        self._at_ns = METER.snapshot().modelled_ns

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether what was recorded has run: always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """Modelled milliseconds from this event to ``end_event``."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at_ns is None or end_event._at_ns is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at_ns - self._at_ns) / 1e6


class StreamContext:
    """``with torch.spyre.stream(s)``. None: no change."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self._stream = stream
        self._before: torch.Stream | None = None

    def __enter__(self) -> None:
        if self._stream is not None:
            self._before = current_stream()
            set_stream(self._stream)

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            set_stream(self._before)


_default: Stream | None = None
_current: torch.Stream | None = None


def default_stream(device: Any = None) -> torch.Stream:
    """Stream 0."""
    global _default
    if _default is None:
        _default = Stream()
    return _default


def current_stream(device: Any = None) -> torch.Stream:
    """The stream set last."""
    return _current if _current is not None else default_stream()


def set_stream(stream: torch.Stream) -> None:
    """Make ``stream`` current."""
    global _current
    _current = stream


def install() -> None:
    """Put the class in torch's place."""
    AnyEvent.__qualname__, AnyEvent.__name__, AnyEvent.__module__ = "Event", "Event", "torch"
    torch.Event = AnyEvent
