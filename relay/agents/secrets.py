"""What this process knows that nobody outside may: the values that are scrubbed from everything a model is told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from relay.settings import Settings

_NAMES = re.compile(r"(?i)token|secret|passw|credential|_key$|_key_|apikey|private")


def known_secrets(settings: Settings, environ: Mapping[str, str] | None = None) -> set[str]:
    """Every secret of the settings, what their files hold, passwords inside of addresses, and what the environment has
    under a name that says so."""
    found = set(_of(settings))
    for path in (settings.webhook_secrets_file, settings.agents.key_file):
        if path:
            found |= _lines(Path(path))
    for address in (settings.database_url, settings.broker_url, settings.upstream_url):
        password = urlsplit(address).password if "://" in address else None
        if password:
            found.add(password)
    variables = os.environ if environ is None else environ
    found |= {value for name, value in variables.items() if _NAMES.search(name) and not value.isdecimal()}
    return {value for value in found if value}


def _of(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _of(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _of(item)


def _lines(path: Path) -> set[str]:
    try:
        return {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
    except (OSError, UnicodeDecodeError):
        return set()  # who needs the file says what is wrong with it; there is nothing in it to hide
