"""Which queue takes what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from relay.queue.names import is_shard_queue, shard_queue
from relay.services.queueing import choose
from relay.worker import config


def test_a_queue_is_named_by_device_machine_and_torch() -> None:
    assert shard_queue("spyre", "x86_64", "2.13.0+cpu") == "spyre.x86_64.torch-2.13"


@pytest.mark.parametrize("name", ["route", "select", "", "a b", "a\n", "x" * 65, "../x"])
def test_a_worker_takes_from_no_queue_of_another_kind(name: str) -> None:
    assert not is_shard_queue(name)


OLD, NEW, ARM = "spyre.x86_64.torch-2.12", "spyre.x86_64.torch-2.13", "spyre.aarch64.torch-2.13"


def worker(queue: str, torch: str, *runtimes: str) -> Any:
    return SimpleNamespace(queue=queue, torch=torch, runtimes=list(runtimes))


@pytest.mark.parametrize(
    ("kind", "torch", "queue"),
    [
        ("overlay", "2.13.0", NEW),
        ("tests-only", "2.13.0", ARM),
        ("overlay", "2.12.1", None),
        ("tests-only", "2.12.1", OLD),
        ("pr-build", "2.13.0", None),
    ],
)
def test_the_queue_with_the_most_workers_that_can(kind: str, torch: str, queue: str | None) -> None:
    alive = [
        worker(OLD, "2.12.1", "tests-only"),
        worker(NEW, "2.13.0", "tests-only", "overlay"),
        worker(ARM, "2.13.0", "tests-only"),
        worker(ARM, "2.13.0", "tests-only"),
    ]
    assert choose(alive, kind, torch) == queue


def test_a_worker_names_its_queue_after_what_it_has() -> None:
    told = {"RELAY_URL": "http://x", "RELAY_WORKER_KEY": "k", "RELAY_BROKER_URL": "redis://x"}
    made = config.from_environment({**told, "RELAY_WORKER_DEVICE": "card"}, "2.14.1")
    assert made.queue.startswith("card.")
    assert made.queue.endswith(".torch-2.14")
    with pytest.raises(Exception, match="RELAY_WORKER_QUEUE"):
        config.from_environment({**told, "RELAY_WORKER_QUEUE": "se lect"}, "2.14.1")
