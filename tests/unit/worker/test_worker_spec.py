from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest

from relay.errors import BadRequest, SettingsError
from relay.worker import config as config_module
from relay.worker.config import from_environment
from relay.worker.spec import parse_shard, read_spec
from selector.model import RuntimeKind, TestId

SHARD: dict[str, Any] = {
    "id": "s",
    "commit": "c",
    "device": "spyre",
    "runtime": {"kind": "overlay", "torch": "2.13.0", "files": ["torch/_refs/__init__.py"]},
    "capability": "",
    "configs": [{"name": "a.yaml", "text": "x"}],
    "tests": ["test/test_x.py::TestA::test_b", "test/test_y.py::TestA::test_b", "test/test_x.py::TestA::test_c"],
    "variants": None,
    "limits": {"variant_s": 5},
}


def test_a_lease_and_a_bare_shard_are_read_alike() -> None:
    lease = read_spec(json.dumps({"shard": SHARD, "done": ["k"]}))
    bare = read_spec(json.dumps({**SHARD, "done": ["k"]}))
    assert lease == bare
    assert lease.runtime.kind is RuntimeKind.OVERLAY
    assert lease.files == ("test/test_x.py", "test/test_y.py")
    assert lease.tests[0] == TestId("test/test_x.py", "TestA", "test_b")
    assert (lease.limits.variant_s, lease.limits.shard_s) == (5, 900.0)
    assert lease.done == {"k"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"runtime": {"kind": "magic"}}, "magic"),
        ({"runtime": 3}, "shard.runtime"),
        ({"tests": "x"}, "shard.tests"),
        ({"tests": ["test_b"]}, "test_b"),
        ({"tests": ["/etc/x.py::A::b"]}, "outside the tree"),
        ({"tests": ["test/../../x.py::A::b"]}, "outside the tree"),
        ({"variants": [1]}, "shard.variants"),
        ({"configs": [{"name": "a"}]}, "text"),
        ({"limits": 3}, "shard.limits"),
    ],
)
def test_a_bad_shard_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        parse_shard({**SHARD, **change})


def test_a_worker_says_which_variable_is_missing() -> None:
    given = {"RELAY_URL": "http://x/", "RELAY_WORKER_KEY": "k", "RELAY_BROKER_URL": "redis://"}
    for name in given:
        with pytest.raises(SettingsError, match=name):
            from_environment({k: v for k, v in given.items() if k != name})
    config = from_environment({**given, "RELAY_WORKER_DEVICE": "openreg"}, "2.13.0")
    assert (config.url, config.queue) == ("http://x", f"openreg.{platform.machine()}.torch-2.13")
    assert "'k'" not in repr(config)
    assert from_environment({**given, "RELAY_WORKER_IMAGE": " lab/worker@sha256:1 "}).image == "lab/worker@sha256:1"
    assert from_environment({**given, "RELAY_MODULE_PACKAGES": "models, other"}).module_packages == ("models", "other")
    with pytest.raises(SettingsError, match="RELAY_MODULE_PACKAGES names 'a b'"):
        from_environment({**given, "RELAY_MODULE_PACKAGES": "models,a b"})


@pytest.mark.parametrize("url", ["nonsense", "relay.example:80", "ftp://relay", "http://", "http://a:b", "http://[::1"])
def test_a_worker_refuses_what_is_no_address(url: str) -> None:
    given = {"RELAY_URL": url, "RELAY_WORKER_KEY": "k", "RELAY_BROKER_URL": "redis://"}
    with pytest.raises(SettingsError, match="RELAY_URL is") as caught:
        from_environment(given)
    assert "https://" in str(caught.value)


def test_only_the_config_reads_what_the_worker_is_told():
    """The rest of the worker runs when the variables are gone, so that nothing started from there inherits the key."""
    folder = Path(config_module.__file__).parent
    told = re.compile(r"environ(\.get\(|\[)\s*[\"']RELAY_")
    readers = [path.name for path in sorted(folder.glob("*.py")) if told.search(path.read_text())]
    assert readers == []
