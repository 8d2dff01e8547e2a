"""Installs the emulated device once for the tests that are marked ``torch``; its name then holds for the process."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture(autouse=True)
def _installed_device(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("torch") is None or importlib.util.find_spec("torch") is None:
        yield
        return
    import relay.device as device

    with warnings.catch_warnings():
        # Another test may have imported upstream's test library first; what is tested here does not depend on it.
        warnings.simplefilter("ignore", RuntimeWarning)
        device.install()
    from relay.device import labels

    labels.FOUND.bystanders = labels.others()  # xdist's, which carries messages
    with device.use_policy(device.UNLIMITED):
        yield


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Has every operator take the long way, or the short one again."""
    from relay.device.policy import CURRENT

    def take(long: bool) -> None:
        monkeypatch.setattr(CURRENT, "one_way", long)
        CURRENT.put(CURRENT.policy)

    yield take
    take(False)
