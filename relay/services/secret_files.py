"""Secrets in force: those of the settings, and those of files that are read again when they change, so that each can be
rotated without a restart.

``secrets_dir`` is a folder as Kubernetes, Docker and systemd mount secrets: a file a secret, named as the setting. A
file that goes away or cannot be read leaves what it said last in force: half of a rotation must lock nobody out.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import SecretStr

from relay.settings import Settings

log = structlog.get_logger(__name__)
MAX_SECRETS = 10
NAMES = ("webhook_secrets", "worker_key", "github_private_key", "hud_bot_key")
"""Files of ``secrets_dir``. Of webhook_secrets and worker_key every line is a good secret; the others are one each."""


@dataclass(frozen=True)
class _Read:
    signature: tuple[int, ...] | None
    text: str


_lock = threading.Lock()
_read: dict[str, _Read] = {}


def text_of(path: Path) -> str:
    """The file's text without the white space around it; what it was when last read, if it cannot be read or is empty
    now; ``""`` if it never could."""
    name = str(path)
    with _lock:
        known = _read.get(name)
        try:
            stat = path.stat()
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if known is not None and known.signature == signature:
                return known.text
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            if known is None or known.signature is not None:
                log.error("secrets cannot be read, the last ones stay", file=name, error=str(exc))
            _read[name] = known = _Read(None, known.text if known else "")
            return known.text
        if not text and known is not None and known.text:
            log.error("secrets: the file is empty, the last ones stay", file=name)
            text = known.text
        else:
            log.info("secrets read", file=name, lines=len(text.splitlines()))
        _read[name] = _Read(signature, text)
        return text


def lines_of(path: Path) -> tuple[str, ...]:
    """One secret a line, at most MAX_SECRETS."""
    return tuple(line.strip() for line in text_of(path).splitlines() if line.strip())[:MAX_SECRETS]


def _file(settings: Settings, name: str) -> Path | None:
    """The file of a secret, where there is or was one."""
    if settings.secrets_dir is None:
        return None
    path = settings.secrets_dir / name
    return path if path.exists() or str(path) in _read else None


def one_of(settings: Settings, name: str) -> str:
    """The secret ``name`` (of NAMES, one that is a single one): its file's, else the setting's."""
    path = _file(settings, name)
    found = text_of(path) if path is not None else ""
    if found:
        return found
    value: SecretStr = getattr(settings, name)
    return value.get_secret_value()


def worker_keys(settings: Settings) -> list[str]:
    """Every key by which a worker may enrol: two during a rotation."""
    path = _file(settings, "worker_key")
    found = [settings.worker_key.get_secret_value(), *(lines_of(path) if path is not None else ())]
    return [key for key in dict.fromkeys(found) if key]


def webhook_secrets(settings: Settings) -> list[str]:
    """Every secret that may sign a webhook, the settings' first."""
    found = [secret.get_secret_value() for secret in settings.webhook_secrets]
    if settings.webhook_secrets_file:
        found += lines_of(Path(settings.webhook_secrets_file))
    path = _file(settings, "webhook_secrets")
    if path is not None:
        found += lines_of(path)
    return [secret for secret in dict.fromkeys(found) if secret]
