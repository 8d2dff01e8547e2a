"""The test class of the device for upstream's ``TORCH_TEST_DEVICES`` hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from itertools import islice
from typing import Any
from unittest import SkipTest

import torch

from relay.reuse import parametrize, restrictions
from relay.reuse.dtypes import dtype_name, dtype_of
from relay.reuse.policy import Reuse, TestPolicy, active
from relay.reuse.registry import VariantRecord
from selector.model import Mode, TestId


def make_test_class(base: Any, device_type: str = "privateuse1") -> Any:
    """A class deriving from one of upstream's test bases whose variants obey the active ``Reuse``.

    ``base``: ``PrivateUse1TestBase``, or ``CPUTestBase`` for files whose config lists ``cpu`` among its devices.
    """
    own_type = device_type

    class RelayTestBase(base):  # type: ignore[misc]
        device_type = own_type
        _relay_policy: TestPolicy | None = None
        _relay_why_empty: list[str] | None = None

        @classmethod
        def instantiate_test(cls, name: str, test: Any, *, generic_cls: Any = None) -> None:
            reuse = active()
            if reuse is None or generic_cls is None:
                super().instantiate_test(name, test, generic_cls=generic_cls)
                return
            test_id = TestId(_file(reuse, generic_cls), generic_cls.__name__, name)
            policy = reuse.policy(test_id)
            if policy.has_selectors:
                policy = reuse.policy(test_id, parametrize.facts(test, policy))
            why_empty: list[str] = []
            cls._relay_policy, cls._relay_why_empty = policy, why_empty
            if own_type == "privateuse1":
                # upstream's set-up of the class, which is left out below, does it at some variant of some test: by it a
                # class's overrides of ops are found, so it has to be there before the first
                cls.device_type = torch._C._get_privateuse1_backend_name()
            size = len(vars(cls))
            try:
                super().instantiate_test(name, _with_narrowed(test, policy, why_empty), generic_cls=generic_cls)
            finally:
                cls._relay_policy = None
            made = list(islice(reversed(vars(cls)), len(vars(cls)) - size))[::-1]
            if policy.limits_dtypes and not parametrize.understood(getattr(test, "parametrize_fn", None) or test):
                made = [attr for attr in made if _dtypes_stay(cls, attr, policy)]
            if not made:
                reuse.registry.note_emptied(
                    policy.test, "; ".join(why_empty) or "upstream, the device and its configs leave no variant of it"
                )
                return
            # upstream leaves dtypes of @parametrize and @ops alone
            gone = restrictions.excluded_dtypes(cls, generic_cls, name) if hasattr(test, "dtypes") else frozenset()
            refused = _refused(cls, generic_cls, test, policy)
            settle = partial(_settle, cls, policy=policy, refused=refused, gone=frozenset(map(dtype_name, gone)))
            reuse.registry.defer(cls, made, settle)
            if policy.tagged:  # pytest reads marks when it collects
                for attr in made:
                    reuse.registry.own(cls, attr)

        if own_type == "privateuse1":

            @classmethod
            def _init_and_get_primary_device(cls) -> str:
                # upstream sets the class up for it, which asks the device for its number: a real one would begin in
                # the process that collects, and be of no use in those that are forked from it
                return str(vars(base).get("primary_device") or f"{torch._C._get_privateuse1_backend_name()}:0")

            @classmethod
            def get_all_devices(cls) -> list[str]:
                name = torch._C._get_privateuse1_backend_name()
                count = getattr(getattr(torch, name, None), "device_count", lambda: 1)()
                first = cls._init_and_get_primary_device()
                return [first, *(found for i in range(count) if (found := f"{name}:{i}") != first)]

        def __init__(self, methodName: str = "runTest") -> None:
            reuse = active()
            if reuse is not None:
                reuse.registry.get(type(self), methodName)  # binds its mode, if nobody asked for it before
            super().__init__(methodName)

        @classmethod
        def _get_test_exclusions(cls, test_class_name: str) -> Any:
            # what upstream's own exclusions name is generated and reported as skipped, instead of vanishing
            return [] if active() is not None else super()._get_test_exclusions(test_class_name)

        @classmethod
        def _get_dtypes(cls, test: Any) -> Any:
            dtypes = super()._get_dtypes(test)
            policy = cls._relay_policy
            if dtypes is None or policy is None:
                return dtypes
            kept = [d for d in dtypes if _keeps(policy, d)]
            if all(isinstance(d, torch.dtype) for d in dtypes):
                names = {dtype_name(d) for d in kept}
                kept += [dtype_of(n) for n in sorted(policy.included_dtypes() - names)]
            if not kept:
                assert cls._relay_why_empty is not None
                cls._relay_why_empty.append(f"none of its {len(dtypes)} dtypes is supported by the device and configs")
            return kept

        def _apply_precision_override_for_test(self, test: Any, param_kwargs: Any) -> None:
            super()._apply_precision_override_for_test(test, param_kwargs)
            reuse = active()
            record = reuse.registry.get(type(self), self._testMethodName) if reuse else None
            if reuse is None or record is None:
                return
            wanted = reuse.policy(record.test).precision(record)
            if wanted is not None:
                # upstream puts both back after the test
                if wanted.atol is not None:
                    self.precision = wanted.atol
                if wanted.rtol is not None:
                    self.rel_tol = wanted.rtol

    RelayTestBase.__name__ = "RelayTestBase"
    return RelayTestBase


def _file(reuse: Reuse, cls: Any) -> str:
    return reuse.file_of_module(cls.__module__)


def _keeps(policy: TestPolicy, dtypes: Any) -> bool:
    several = dtypes if isinstance(dtypes, (tuple, list)) else (dtypes,)
    return all(policy.keeps_dtype(dtype_name(d)) for d in several)


def _with_narrowed(test: Any, policy: TestPolicy, why_empty: list[str]) -> Any:
    """The test with a narrowed generator; a new function object, since upstream's may be used by other classes."""
    generate = getattr(test, "parametrize_fn", None)
    if generate is None:
        return test
    narrowed = parametrize.narrow(generate, policy, why_empty)
    if narrowed is generate:
        return test

    @wraps(test)
    def same_test(*args: Any, **kwargs: Any) -> Any:
        return test(*args, **kwargs)

    def generate_from_upstreams(_: Any, generic_cls: Any, device_cls: Any) -> Iterator[Any]:
        # upstream reads and sets attributes of the function itself (tracked_input, ...): hand it its own
        return narrowed(test, generic_cls, device_cls)

    same_test.parametrize_fn = generate_from_upstreams  # type: ignore[attr-defined]
    return same_test


def _refused(cls: Any, generic_cls: Any, test: Any, policy: TestPolicy) -> str:
    """Why upstream's own limits keep the whole test from this device, "" when they do not.

    ``@onlyCUDA`` is not among them: such a test skips itself with upstream's own words.
    """
    excluded = restrictions.excluded(cls, generic_cls, policy.test.method)
    if excluded:
        return excluded
    opened = policy.bypasses
    limited: frozenset[str] = getattr(generic_cls, "_relay_limited", frozenset())
    if limited and not opened & limited:
        return f"upstream makes this class for {', '.join(sorted(limited))} only"
    hardware = restrictions.classified(generic_cls)
    if hardware and hardware not in opened and hardware != cls.device_type:
        return f"upstream classifies this class as {hardware.upper()}"
    return ""


def _dtypes_stay(cls: Any, attr: str, policy: TestPolicy) -> bool:
    """Takes a variant away whose dtype came from a parametrizer we do not know (``@parametrize("dtype", ...)``)."""
    defaults = getattr(vars(cls)[attr], "__defaults__", None)
    kwargs = defaults[0] if defaults else None
    if not isinstance(kwargs, dict) or ("dtype" not in kwargs and "dtypes" not in kwargs):
        return True
    op, op_variant, dtypes = parametrize.described(kwargs)
    if all(policy.keeps_dtype(name, op, op_variant) for name in dtypes):
        return True
    delattr(cls, attr)
    return False


def _settle(
    cls: Any, attr: str, *, policy: TestPolicy, refused: str, gone: frozenset[str] = frozenset()
) -> VariantRecord:
    """The record of a generated method, which is bound to its mode. ``gone``: dtypes of ``@dtypes`` that the device's
    class excludes."""
    made = vars(cls)[attr]
    kwargs: Any = (getattr(made, "__defaults__", None) or ({},))[0]
    described = parametrize.described(kwargs if isinstance(kwargs, dict) else {})
    bare = _bare(cls, attr, kwargs) if policy.names_variants else ""
    record = policy.record(attr, *described, bare=bare)
    if not refused and record.op is None and gone & set(record.dtypes):
        refused = "its dtype is in the test_exclusions of the device's test class"
    if refused and record.mode is not Mode.SKIP:
        record = replace(record, mode=Mode.SKIP, reason=refused, issue="")
    elif policy.bypasses and (limits := restrictions.limits(made)) and limits & policy.bypasses:
        record = replace(record, bypass=True)
    bound_method = bound(made, record)
    if bound_method is not made:
        setattr(cls, attr, bound_method)
    mark(bound_method, record.tags)
    return record


def _bare(cls: Any, attr: str, kwargs: Any) -> str:
    """The generated name without what upstream put behind it for the device and the dtypes of ``kwargs``."""
    from torch.testing._internal.common_device_type import _dtype_test_suffix

    device = cls.device_type
    if device == "privateuse1":
        device = torch._C._get_privateuse1_backend_name()
    dtypes = kwargs.get("dtypes", kwargs.get("dtype")) if isinstance(kwargs, dict) else None
    return attr.removesuffix(f"_{device}{_dtype_test_suffix(dtypes)}")


def mark(method: Any, tags: tuple[str, ...]) -> None:
    """Tags that are identifiers become pytest marks too (``-m``); the others are for our own tag expressions."""
    words = [tag for tag in tags if tag.isidentifier()]
    if words:
        import pytest

        known = list(getattr(method, "pytestmark", ()))
        method.pytestmark = known + [getattr(pytest.mark, word).mark for word in words]


def bound(made: Callable[..., Any], record: VariantRecord) -> Callable[..., Any]:
    """The method under its config: skipped with the reason, without gradients, comparing on the CPU; else as it is."""
    if record.mode is not Mode.SKIP and not record.no_grad and not record.cpu_move and not record.bypass:
        return made

    @wraps(made)
    def governed(self: Any) -> Any:
        if record.mode is Mode.SKIP:
            raise SkipTest(record.reason or f"skipped by {record.source or 'the config'}")
        with _moved(self, record.cpu_move), _bypassed(self, record.bypass):
            if not record.no_grad:
                return made(self)
            with torch.no_grad():
                return made(self)

    governed._relay_raw = made  # type: ignore[attr-defined]
    return governed


@contextmanager
def _moved(case: Any, names: tuple[str, ...]) -> Iterator[None]:
    """Sets the named methods on this instance alone, with their tensor arguments moved to the CPU."""
    for name in names:
        method = getattr(case, name, None)
        if method is not None:
            setattr(case, name, _on_cpu(method))
    try:
        yield
    finally:
        for name in names:
            case.__dict__.pop(name, None)


@contextmanager
def _bypassed(case: Any, wanted: bool) -> Iterator[None]:
    """Upstream's own switch (2.13), on this instance and for this test alone."""
    if wanted:
        case.bypass_device_restrictions = True
    try:
        yield
    finally:
        if wanted:
            case.__dict__.pop("bypass_device_restrictions", None)


def _on_cpu(method: Callable[..., Any]) -> Callable[..., Any]:
    def to_cpu(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.cpu()
        if type(value) in (list, tuple):
            return type(value)(to_cpu(v) for v in value)
        if type(value) is dict:
            return {k: to_cpu(v) for k, v in value.items()}
        return value

    @wraps(method)
    def moved(*args: Any, **kwargs: Any) -> Any:
        return method(*map(to_cpu, args), **{k: to_cpu(v) for k, v in kwargs.items()})

    return moved
