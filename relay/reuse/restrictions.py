"""What upstream limits a test or a class to (``@onlyCUDA``, ``only_for``, ``hw_classification``), read from objects.

Configs open such limits one device type at a time (``bypass_device_restrictions: [cuda]``); nothing opens by itself.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from relay.reuse.policy import active

_OTHERS = ("CPU", "CUDA", "MPS", "XPU")
"""members of 2.14's HardwareClassification that name a device which is not this one"""


def chain(test: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The function and every one it wraps, outermost first."""
    seen: set[int] = set()
    current: Any = test
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = getattr(current, "__wrapped__", None)


def limits(test: Callable[..., Any]) -> frozenset[str] | None:
    """Device types that ``@onlyOn`` and its kin limit the test to; None: it is not limited."""
    from torch.testing._internal.common_device_type import onlyOn

    found: list[frozenset[str]] = []
    for function in chain(test):
        for cell in getattr(function, "__closure__", None) or ():
            try:
                value = cell.cell_contents
            except ValueError:  # a name that is not bound yet
                continue
            if isinstance(value, onlyOn):
                types = value.device_type
                found.append(frozenset((types,) if isinstance(types, str) else types))
    if not found:
        return None
    return frozenset.intersection(*found) or frozenset.union(*found)


def classified(cls: type) -> str:
    """The device that a class's ``hw_classification`` (torch 2.14) says it is for, "" when any or this one."""
    value = getattr(cls, "hw_classification", None)
    name = str(getattr(value, "name", value or "")).upper()
    return name.lower() if name in _OTHERS else ""


def names_of_decorators(test: Callable[..., Any]) -> frozenset[str]:
    """Names written above the test in its source; for the selector ``decorators``."""
    innermost = list(chain(test))[-1]
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(innermost)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return frozenset()  # made by a factory: no source of its own
    first = tree.body[0] if tree.body else None
    found = set()
    for decorator in getattr(first, "decorator_list", ()):
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        found.add(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", ""))
    return frozenset(found - {""})


def markers(test: Callable[..., Any]) -> frozenset[str]:
    """Names of the test's pytest marks, and ``slow`` for upstream's ``@slowTest``."""
    found = {mark.name for mark in getattr(test, "pytestmark", ())}
    if any(getattr(function, "slow_test", False) for function in chain(test)):
        found.add("slow")
    return frozenset(found)


def _limited(words: Any) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words or ())


def install() -> None:
    """Lets configs open ``only_for`` and ``except_for``, and generate for the CPU too (``global.devices``).

    Upstream's files take ``instantiate_device_type_tests`` from its module by name, so this must be done before they
    are imported. Doing it twice does nothing.
    """
    from torch.testing._internal import common_device_type as upstream

    original = upstream.instantiate_device_type_tests
    if hasattr(original, "_relay_original"):
        return

    @functools.wraps(original)
    def instantiate(
        generic_test_class: Any, scope: Any, except_for: Any = None, only_for: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        reuse = active()
        devices: tuple[str, ...] = ()
        limited: frozenset[str] = frozenset()
        if reuse is not None:
            path = reuse.file_of_module(generic_test_class.__module__)
            devices = reuse.configs.devices(path) if reuse.configs is not None else ()
            opened = (
                reuse.configs.opens(path, generic_test_class.__name__) if reuse.configs is not None else frozenset()
            )
            if only_for and not _is_for_us(_limited(only_for)) and opened & set(_limited(only_for)):
                limited = frozenset(_limited(only_for))
                only_for = (*_limited(only_for), "privateuse1")
            if except_for and _is_for_us(_limited(except_for)) and "privateuse1" in opened:
                except_for = tuple(word for word in _limited(except_for) if not _is_for_us((word,))) or None
        generic_test_class._relay_limited = limited
        try:
            with _also(devices):
                return original(generic_test_class, scope, except_for, only_for, *args, **kwargs)
        finally:
            del generic_test_class._relay_limited

    instantiate._relay_original = original  # type: ignore[attr-defined]
    upstream.instantiate_device_type_tests = instantiate


def _is_for_us(words: Iterable[str]) -> bool:
    import torch

    return bool({"privateuse1", torch._C._get_privateuse1_backend_name()} & set(words))


class _also:
    """Upstream reads from the environment which device types to generate for, at each call."""

    KEY = "PYTORCH_TESTING_DEVICE_ONLY_FOR"

    def __init__(self, devices: tuple[str, ...]) -> None:
        self._before = os.environ.get(self.KEY)
        self._devices = tuple(d for d in devices if d == "cpu")

    def __enter__(self) -> None:
        if self._before and self._devices:
            words = dict.fromkeys((*self._before.split(","), *self._devices))
            os.environ[self.KEY] = ",".join(words)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            os.environ[self.KEY] = self._before
