"""Lets upstream's comparisons do their own work on the device without limits, and without counting it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from relay.device.errors import DeviceError

_MARK = "_spyre_comparing"


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(function, _MARK, False):
        return function

    @functools.wraps(function)
    def compare(*args: Any, **kwargs: Any) -> Any:
        from relay.device import comparison

        with comparison():
            return function(*args, **kwargs)

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
    torch.testing.assert_close = _wrapped(torch.testing.assert_close)
    common_utils.TestCase.assertEqual = _wrapped(common_utils.TestCase.assertEqual)
