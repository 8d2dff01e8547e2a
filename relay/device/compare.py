"""Lets upstream's comparisons do their own work on the device without limits, and without counting it.

Attributes (device, dtype, strides) are compared as they are; the values are compared by the CPU, on the same memory: a
comparison is a dozen operators, and most of what a small test does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from relay.device.errors import DeviceError

_MARK = "_spyre_comparing"


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(function, _MARK, False):
        return function

    from relay.device import comparison

    @functools.wraps(function)
    def compare(*args: Any, **kwargs: Any) -> Any:
        with comparison():
            return function(*args, **kwargs)

    setattr(compare, _MARK, True)
    return compare


def _already_equal(actual: Any, expected: Any) -> bool:
    """Whether there is nothing to make equal of two tensors, and so no operator to run."""
    return bool(
        actual.dtype is expected.dtype and actual.layout is expected.layout and actual.device == expected.device
    )


def _never(actual: Any, expected: Any) -> bool:
    return False


def _seen_by_the_cpu(
    function: Callable[..., Any], does_nothing: Callable[[Any, Any], bool] = _never
) -> Callable[..., Any]:
    """A method of ``TensorLikePair`` over tensors of the CPU: the same, lent, or others of the same memory."""
    if getattr(function, _MARK, False):
        return function
    from relay.device.labels import FOUND, NOT_LENT, both_lent
    from relay.device.memory import WITHOUT_A_WILL, device_alias

    def seen(value: Any) -> Any:
        alias = None if value.is_cpu else device_alias(value)
        return value if alias is None else alias

    @functools.wraps(function)
    def compare(self: Any, actual: Any, expected: Any, *args: Any, **kwargs: Any) -> Any:
        if does_nothing(actual, expected):
            return function(self, actual, expected, *args, **kwargs)
        if type(actual) not in WITHOUT_A_WILL or type(expected) not in WITHOUT_A_WILL:
            return function(self, actual, expected, *args, **kwargs)
        labels = FOUND.labels
        if labels is not None:
            out = both_lent(labels, actual, expected, function, self, actual, expected, *args, **kwargs)
            if out is not NOT_LENT:
                return out
        return function(self, seen(actual), seen(expected), *args, **kwargs)

    setattr(compare, _MARK, True)
    return compare


def install() -> None:
    """See `relay.device.comparing`."""
    from relay.device import installed

    if not installed():
        raise DeviceError("relay.device.comparing() came before relay.device.install(): the rename would be too late")
    import torch.testing
    import torch.testing._comparison as comparison_module
    import torch.testing._internal.common_utils as common_utils

    # `not_close_error_metas` is where both end up, also for modules that imported `assert_close` by name earlier.
    comparison_module.not_close_error_metas = _wrapped(comparison_module.not_close_error_metas)
    common_utils.not_close_error_metas = _wrapped(common_utils.not_close_error_metas)
    pair = comparison_module.TensorLikePair
    for name, does_nothing in (("_equalize_attributes", _already_equal), ("_compare_values", _never)):
        if hasattr(pair, name):  # not torch's promise; without it comparisons are right, but slower
            setattr(pair, name, _seen_by_the_cpu(getattr(pair, name), does_nothing))
    torch.testing.assert_close = _wrapped(torch.testing.assert_close)
    common_utils.TestCase.assertEqual = _wrapped(common_utils.TestCase.assertEqual)
