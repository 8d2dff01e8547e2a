"""What upstream limits a test or a class to (``@onlyCUDA``, ``only_for``, ``hw_classification``), read from objects.

Configs open such limits one device type at a time (``bypass_device_restrictions: [cuda]``); nothing opens by itself.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from unittest import SkipTest

from relay.reuse.policy import active
from relay.reuse.registry import VariantRecord
from selector.model import Mode, TestId

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
    """``global.devices``: upstream reads from the environment which device types to generate for, at each call. For
    those that this machine does not have, a stand-in is listed for the while, whose tests say so."""

    KEY = "PYTORCH_TESTING_DEVICE_ONLY_FOR"

    def __init__(self, devices: tuple[str, ...]) -> None:
        self._before = os.environ.get(self.KEY)
        self._devices = tuple(d for d in devices if not _is_for_us((d,)))
        self._absent: list[Any] = []

    def __enter__(self) -> None:
        if not self._before or not self._devices:
            return
        from torch.testing._internal import common_device_type as upstream

        here = {base.device_type for base in upstream.device_type_test_bases}
        self._absent = [_absent(device) for device in self._devices if device not in here]
        upstream.device_type_test_bases.extend(self._absent)
        os.environ[self.KEY] = ",".join(dict.fromkeys((*self._before.split(","), *self._devices)))

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            os.environ[self.KEY] = self._before
        if self._absent:
            from torch.testing._internal import common_device_type as upstream

            upstream.device_type_test_bases[:] = [b for b in upstream.device_type_test_bases if b not in self._absent]


@functools.cache
def _absent(device: str) -> Any:
    """A test base for a device type that is not here: of each test it makes one, which is skipped with the reason."""
    from torch.testing._internal.common_device_type import DeviceTypeTestBase

    class AbsentTestBase(DeviceTypeTestBase):  # type: ignore[misc]
        device_type = device

        @classmethod
        def instantiate_test(cls, name: str, test: Any, *, generic_cls: Any = None) -> None:
            reason = f"there is no {device} on this machine; global.devices of the config asks for it"

            def skipped(self: Any) -> None:
                raise SkipTest(reason)

            skipped.__name__ = f"{name}_{device}"
            setattr(cls, skipped.__name__, skipped)
            reuse = active()
            if reuse is not None and generic_cls is not None:
                test_id = TestId(reuse.file_of_module(generic_cls.__module__), generic_cls.__name__, name)
                reuse.registry.add(cls, VariantRecord(test_id, skipped.__name__, mode=Mode.SKIP, reason=reason))

    return AbsentTestBase


def excluded(cls: Any, generic_cls: Any, method: str) -> str:
    """Why the device class's own ``test_exclusions`` (torch 2.13) name the whole test, "" when they do not."""
    rule = (getattr(cls, "test_exclusions", None) or {}).get(generic_cls.__name__)
    if rule is None:
        return ""
    named = rule.get(method) == "*" if isinstance(rule, Mapping) else method in rule or "*" in rule
    if named or rule == "*":
        return "in the test_exclusions of the device's test class"
    return ""


def excluded_dtypes(cls: Any, generic_cls: Any, method: str) -> frozenset[Any]:
    """Dtypes of ``@dtypes`` that ``test_exclusions`` take out of a test (torch 2.14)."""
    rule = (getattr(cls, "test_exclusions", None) or {}).get(generic_cls.__name__)
    of_method = rule.get(method) if isinstance(rule, Mapping) else None
    return frozenset(of_method.get("dtypes", ())) if isinstance(of_method, Mapping) else frozenset()
