"""The webhook's secrets in force: those of the settings, and those of a file that is read again when it changes: so a
secret is rotated without a restart."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import structlog

from relay.settings import Settings

log = structlog.get_logger(__name__)
MAX_SECRETS = 10


@dataclass(frozen=True)
class _Read:
    signature: tuple[int, ...] | None
    secrets: tuple[str, ...]


_lock = threading.Lock()
_read: dict[str, _Read] = {}


def secrets_of(settings: Settings) -> list[str]:
    """Every secret that may sign, the settings' first. A file that goes away or cannot be read leaves those of before
    in force: half of a rotation must not refuse what GitHub sends."""
    found = [value for secret in settings.webhook_secrets if (value := secret.get_secret_value())]
    if settings.webhook_secrets_file:
        found += _of_file(settings.webhook_secrets_file)
    return list(dict.fromkeys(found))


def _of_file(name: str) -> tuple[str, ...]:
    path = Path(name)
    with _lock:
        known = _read.get(name)
        try:
            stat = path.stat()
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if known is not None and known.signature == signature:
                return known.secrets
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            if known is None or known.signature is not None:
                log.error("webhook secrets cannot be read, the last ones stay", file=name, error=str(exc))
            _read[name] = known = _Read(None, known.secrets if known else ())
            return known.secrets
        secrets = tuple(line.strip() for line in lines if line.strip())[:MAX_SECRETS]
        if not secrets and known is not None and known.secrets:
            log.error("webhook secrets: the file is empty, the last ones stay", file=name)
            secrets = known.secrets
        else:
            log.info("webhook secrets read", file=name, number=len(secrets))
        _read[name] = _Read(signature, secrets)
        return secrets
