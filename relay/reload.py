"""Settings that are changed in the file while a process runs: those of LIVE are in force within seconds, the others are
named in the log as what a restart is for. A file that is wrong changes nothing."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import structlog

from relay.errors import SettingsError
from relay.procs import on_signals
from relay.settings import Settings, load

log = structlog.get_logger(__name__)
LOOK_S = 2.0
LIVE = frozenset(
    {
        "actors", "budget_minutes", "debounce_s", "explore_seconds", "explore_share", "heartbeat_s",
        "keep_bodies_days", "keep_details_days", "keep_hud_days", "keep_ignored_days", "keep_logs_days",
        "keep_runs_days", "max_body_bytes", "memory_mb", "oncall_comments", "operators", "pages_private", "poll_s",
        "push_refs", "readers", "requeue_s", "self_report_refs", "shard_seconds", "shard_timeout_s",
        "variant_timeout_s", "webhook_secrets", "webhook_secrets_file", "worker_key", "worker_wait_s",
    }
)  # fmt: skip
"""Settings that are read at each use. The others went into connections, caches or child processes at the start."""


class Reloader:
    """Keeps ``settings``, which the whole process shares, in step with the file ``path``."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self.settings = settings
        self.path = path
        self._seen = self._signature()
        self._told: frozenset[str] = frozenset()

    def step(self, *, asked: bool = False) -> list[str]:
        """Looks at the file, and reads it if it has changed or somebody ``asked``. Returns the names that changed."""
        signature = self._signature()
        if signature == self._seen and not asked:
            return []
        self._seen = signature
        try:
            fresh = load(self.path)
        except SettingsError as exc:
            log.error("settings not read, those of before stay", file=str(self.path), error=exc.message, hint=exc.hint)
            return []
        old, new = self.settings, fresh
        different = {name for name in Settings.model_fields if getattr(old, name) != getattr(new, name)}
        changed = sorted(different & LIVE)
        for name in changed:
            setattr(self.settings, name, getattr(fresh, name))
        late = frozenset(different - LIVE)
        if late - self._told:
            log.warning("these settings are in force after a restart", settings=sorted(late))
        self._told = late
        if changed:
            log.info("settings in force", changed=changed)  # the names: among the values are secrets
        return changed

    def _signature(self) -> tuple[int, ...]:
        try:
            stat = self.path.stat()
        except OSError:
            return ()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def follow(settings: Settings, stop: threading.Event | None = None) -> None:
    """Follows the file of ``$RELAY_CONFIG`` in a thread, if there is one; SIGHUP makes it look at once. For the main
    thread."""
    name = os.environ.get("RELAY_CONFIG")
    if not name:
        return
    reloader = Reloader(settings, Path(name))
    asked, end = threading.Event(), stop or threading.Event()
    on_signals((signal.SIGHUP,), asked.set)

    def run() -> None:
        while not end.is_set():
            hurry = asked.wait(LOOK_S)
            asked.clear()
            reloader.step(asked=hurry)

    threading.Thread(target=run, name="settings", daemon=True).start()
