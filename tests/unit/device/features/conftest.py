"""What a PrivateUse1 device must do for upstream's tests to run on it: a table, each line of which is a test.

The CPU is the yardstick: a line that fails there is a wrong line, not a fault of the device.
"""

from __future__ import annotations

import pytest


@pytest.fixture(params=["spyre", "cpu"])
def at(request: pytest.FixtureRequest) -> str:
    """Where a feature is tried."""
    return str(request.param)
