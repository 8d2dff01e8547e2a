"""Starts an emulator worker: ``python -m relay.worker``. Does not import torch: the runners it starts do."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

import structlog

from relay import alive, logs
from relay.errors import SettingsError
from relay.procs import on_signals
from relay.worker import adapters, greeting, sandbox
from relay.worker import config as worker_config
from relay.worker.runners import Runners

OPTIONS = {
    "broker": ("RELAY_BROKER_URL", "Celery broker URL"),
    "url": ("RELAY_URL", "URL of the relay"),
    "name": ("RELAY_WORKER_NAME", "name the relay knows this worker by"),
    "device": ("RELAY_WORKER_DEVICE", "device it emulates (default spyre)"),
    "queue": ("RELAY_WORKER_QUEUE", "queue it takes shards from (default <device>.<machine>.torch-<version>)"),
    "lab": ("RELAY_WORKER_LAB", "lab it stands in, where there are several"),
    "trust": ("RELAY_WORKER_TRUST", "strict: no untrusted code where the sandbox is incomplete (default lenient)"),
    "shards": ("RELAY_WORKER_SHARDS", "end after so many shards (default: never)"),
    "drain": ("RELAY_WORKER_DRAIN_S", "seconds a running shard has to end when told to stop (default 0: handed back)"),
    "dir": ("RELAY_WORKER_DIR", "folder for trees and the op database"),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m relay.worker",
        description="An emulator worker. The worker key comes from RELAY_WORKER_KEY only: arguments can be seen.",
    )
    for option, (variable, text) in OPTIONS.items():
        parser.add_argument(f"--{option}", help=f"{text} [{variable}]")
    args = parser.parse_args(argv)
    given = {variable: getattr(args, option) for option, (variable, _) in OPTIONS.items() if getattr(args, option)}
    try:
        config = worker_config.from_environment({**os.environ, **given}, greeting.torch_version())
    except SettingsError as exc:
        print(f"relay worker: {exc}", file=sys.stderr)  # noqa: T201
        return 2
    for variable in [name for name in os.environ if name.startswith("RELAY_") and name != alive.VARIABLE]:
        del os.environ[variable]  # nothing started from here inherits the key
    sandbox.hide_process()
    logs.setup("worker")
    logs.only_stderr()

    runners = Runners(config.folder, adapters.of(config.device, config.plugin))
    try:
        # first of all, for torch takes longest; and in the main thread, with whose end all ends that it starts
        runners.start()
    except OSError as exc:
        structlog.get_logger(__name__).error("nothing is started ahead", why=str(exc))  # the next shard tries again
    # Celery is imported while torch is, by the process beside
    from relay.worker.celery_app import make_app, serve

    stop = threading.Event()
    on_signals((signal.SIGTERM, signal.SIGINT), stop.set)  # until Celery listens to them
    app = make_app(config, runners, stop)
    told = (config, stop, lambda: runners.held)
    threading.Thread(target=greeting.keep_greeting, args=told, name="hello", daemon=True).start()
    if not runners.wait(stop):
        runners.close()
        return 0
    serve(app, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
