"""A worker imports torch, with the package of its device, before it takes a shard; where it cannot, it takes none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from card_plugin import installed
from sqlalchemy import select
from worker_web import Relay, wait_for

from relay.store.db import reading
from relay.store.schema import worker
from relay.worker import adapters, agent, greeting, runners
from relay.worker.client import Client

pytestmark = pytest.mark.torch
STAMP = "\n\nimport time\nIMPORTED = time.time(), os.getpid()\n"
SOURCE = """
import torch
import torch_card
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests


class TestSmall(TestCase):
    def test_stamp(self, device):
        self.assertEqual((torch.ones(2, device=device) + 1).cpu().tolist(), [2.0, 2.0])
        self.fail(f"imported at {torch_card.IMPORTED[0]}")


instantiate_device_type_tests(TestSmall, globals())
"""
TEST = "test/test_small.py::TestSmall::test_stamp"


class Worker:
    """A worker of the card's queue, without Celery: its warm processes and a thread that is handed shards."""

    def __init__(self, web: Relay) -> None:
        self.web = web
        self.config = replace(web.config, device="card", plugin="torch_card")
        self.runners = runners.Runners(self.config.folder, adapters.of("card", "torch_card"))
        self.stop = threading.Event()

    def run(self, key: str) -> str:
        """The message of the shard's only variant."""
        agent.run_shard(key, self.config, self.stop, self.runners)
        row = self.web.row(key)
        assert (row.state, row.error) == ("done", None)
        return str(self.web.message(key))


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    monkeypatch.setattr("worker_web.SOURCE", SOURCE)
    with Relay(tmp_path) as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Installs the plugin where the worker's processes find it, doing at its import what is asked for, too."""

    def install(more: str) -> Path:
        there = installed(tmp_path, STAMP + more)
        monkeypatch.setenv("PYTHONPATH", str(there))
        monkeypatch.syspath_prepend(str(there))
        return there / "torch_card.py"

    return install


@pytest.fixture
def leased(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the worker asked for a lease."""
    asked: list[float] = []
    lease = Client.lease

    def seen(self: Client, *args: Any) -> dict[str, Any]:
        asked.append(time.time())
        return lease(self, *args)

    monkeypatch.setattr(Client, "lease", seen)
    return asked


def test_torch_is_imported_with_the_devices_package_before_the_lease(
    web: Relay, site: Callable[[str], Path], leased: list[float]
) -> None:
    site("")
    one = Worker(web)
    try:
        one.runners.start()
        messages = [one.run(web.shard(TEST, device="card")) for _ in range(2)]
    finally:
        one.runners.close()
    imported = [float(message.split()[3]) for message in messages]
    assert imported[0] < leased[0], "the lease waited for torch"
    assert imported[0] == imported[1], "and nothing was imported again for the next one"


def test_a_package_that_leaves_a_thread_is_imported_by_each_shard(
    web: Relay, site: Callable[[str], Path], leased: list[float]
) -> None:
    site("\nimport threading\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n")
    one = Worker(web)
    try:
        one.runners.start()
        message = one.run(web.shard(TEST, device="card"))
    finally:
        one.runners.close()
    assert float(message.split()[3]) > leased[0]


def test_a_worker_whose_torch_cannot_be_imported_says_so_and_takes_no_shard(
    web: Relay, site: Callable[[str], Path], leased: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "AGAIN_S", 0.2)
    monkeypatch.setattr(greeting, "op_database", lambda folder: '{"torch": "2.13.0", "ops": []}')
    module = site("\nraise OSError('the card has no firmware')\n")
    whole = module.read_text()
    one = Worker(web)
    key = web.shard(TEST, device="card")
    threading.Thread(
        target=greeting.keep_greeting, args=(one.config, one.stop, lambda: one.runners.held), daemon=True
    ).start()

    def told() -> str:
        with reading(web.engine) as conn:
            infos = conn.execute(select(worker.c.info)).scalars().all()
        return str(infos and infos[0].get("held", {}).get("why"))

    def mend() -> None:
        wait_for(lambda: "the card has no firmware" in told())
        seen.append((web.row(key).state, web.row(key).fence, list(leased)))
        module.write_text(whole.rpartition("raise")[0])

    seen: list[Any] = []
    mender = threading.Thread(target=mend)
    mender.start()
    try:
        one.runners.start()
        one.run(key)
        mender.join(60)
        assert seen == [("queued", 0, [])]
        assert one.runners.held == ""
    finally:
        one.stop.set()
        one.runners.close()


def test_a_process_that_dies_of_its_imports_is_told_of_with_what_it_printed(
    web: Relay, site: Callable[[str], Path]
) -> None:
    site("\nimport sys\nprint('no such board', file=sys.stderr, flush=True)\nos.abort()\n")
    one = Worker(web)
    one.runners.start()
    waits = threading.Thread(target=lambda: wait_for(lambda: one.runners.held) or one.stop.set())
    waits.start()
    try:
        assert one.runners.wait(one.stop) is False
        assert "SIGABRT" in one.runners.held
        assert "no such board" in one.runners.held
    finally:
        waits.join(60)
        one.runners.close()
