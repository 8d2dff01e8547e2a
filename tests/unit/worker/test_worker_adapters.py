"""The seam between the runner and a device: which adapter a shard gets, and what it says where its package lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from relay.errors import SettingsError
from relay.worker import adapters
from relay.worker.config import from_environment
from relay.worker.spec import read_spec


@pytest.mark.parametrize(
    ("device", "plugin", "package", "metered"),
    [("spyre", "", "", True), ("openreg", "", "torch_openreg", False), ("spyre", "torch_card", "torch_card", False)],
)
def test_which_adapter_a_device_gets(device: str, plugin: str, package: str, metered: bool) -> None:
    found = adapters.of(device, plugin)
    assert (found.package, found.metered) == (package, metered)


def test_a_package_that_is_not_there_is_named_with_what_to_do() -> None:
    with pytest.raises(adapters.AdapterMissing, match="no_such_plugin_of_ours, which is not installed"):
        adapters.of("card", "no_such_plugin_of_ours").check()
    adapters.of("spyre").check()


@pytest.mark.parametrize("begun", [True, False])
def test_a_real_device_that_began_before_the_fork_is_refused(monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    module = SimpleNamespace(is_initialized=lambda: begun)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(card=module))
    adapter = adapters.of("card", "torch_card")
    if begun:
        with pytest.raises(adapters.AlreadyInitialised, match="initialised before a test process was forked"):
            adapter.check_untouched()
    else:
        adapter.check_untouched()


def test_nodes_are_devices_below_dev_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no device")
    (tmp_path / "null").symlink_to("/dev/null")
    assert adapters.nodes_of(("*",), tmp_path) == (Path("null"),)
    with pytest.raises(adapters.AdapterMissing, match=r"needs /dev/no-such-card\*, and this machine has no such"):
        adapters.of("card", "json", ("no-such-card*",)).check()
    adapters.of("card", "json", ("nul*",)).check()


@pytest.mark.parametrize("said", ["/dev/kvm", "vfio/../mem"])
def test_nodes_outside_of_dev_are_refused(said: str) -> None:
    env = {
        "RELAY_URL": "http://r",
        "RELAY_WORKER_KEY": "k",
        "RELAY_BROKER_URL": "redis://b",
        "RELAY_WORKER_NODES": said,
    }
    with pytest.raises(SettingsError, match="RELAY_WORKER_NODES names"):
        from_environment(env)
    assert from_environment({**env, "RELAY_WORKER_NODES": "vfio/*, accel0"}).nodes == ("vfio/*", "accel0")


def test_plugin_and_packages_are_the_workers_to_say_not_the_relays() -> None:
    shard = '{"shard": {"tests": [], "plugin": "evil", "module_packages": ["evil"], "runtime": {"kind": "tests-only"}}'
    assert (read_spec(shard + "}").plugin, read_spec(shard + "}").module_packages) == ("", ())
    assert read_spec(shard + ', "module_packages": ["models"]}').module_packages == ("models",)
    assert read_spec(shard + ', "plugin": "torch_card"}').plugin == "torch_card"
