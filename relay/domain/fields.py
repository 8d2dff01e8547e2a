"""Reading single fields of foreign JSON: a value of the right kind, or a BadRequest that names the field's path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from relay.errors import BadRequest

ZERO_SHA = "0" * 40
_SHA = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}")
MAX_NUMBER = 2**31 - 1
MAX_ID = 2**63 - 1


def is_sha(text: str) -> bool:
    """Whether ``text`` is a full commit id (40 lower-case hex digits)."""
    return _SHA.fullmatch(text) is not None


def is_repo(text: str) -> bool:
    """Whether ``text`` has the shape owner/name."""
    return _REPO.fullmatch(text) is not None and text.split("/")[1] not in (".", "..")


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """``value`` as an object."""
    if not isinstance(value, dict):
        raise wrong(where, "an object", value)
    return value


def text(parent: Mapping[str, Any], key: str, where: str, *, limit: int = 0, empty: bool = False) -> str:
    """A string of at most ``limit`` characters (0: any number), without what no database stores."""
    path = f"{where}.{key}" if where else key
    value = parent.get(key)
    if not isinstance(value, str):
        raise wrong(path, "a string", value)
    if not value and not empty:
        raise BadRequest(f"{path}: must not be empty", path=path)
    if limit and len(value) > limit:
        raise BadRequest(f"{path}: {len(value)} characters, at most {limit} are taken", path=path)
    return _clean(value)


def optional(parent: Mapping[str, Any], key: str, where: str, default: str) -> str:
    """A string of at most 255 characters, or ``default`` where there is none."""
    return text(parent, key, where, limit=255, empty=True) if parent.get(key) is not None else default


def _clean(value: str) -> str:
    # JSON can spell lone surrogates and NUL, which no database stores as text
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "�")


def number(parent: Mapping[str, Any], key: str, where: str) -> int:
    """The number of a pull request."""
    value = parent.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(f"{where}.{key}", "a whole number", value)
    if not 0 < value <= MAX_NUMBER:
        raise BadRequest(f"{where}.{key}: {value} is not the number of a pull request", path=f"{where}.{key}")
    return value


def flag(parent: Mapping[str, Any], key: str, where: str) -> bool:
    """True or false; False where nothing is said."""
    value = parent.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong(f"{where}.{key}" if where else key, "true or false", value)
    return value


def sha(parent: Mapping[str, Any], key: str, where: str) -> str:
    """A full commit id."""
    path = f"{where}.{key}" if where else key
    value = text(parent, key, where)
    if not is_sha(value):
        raise BadRequest(f"{path}: {value[:60]!r} is not a commit id (40 lower-case hex digits)", path=path)
    return value


def wrong(path: str, wanted: str, value: object) -> BadRequest:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "nothing"}
    got = names.get(type(value), "a fraction" if isinstance(value, float) else "a number")
    return BadRequest(f"{path}: must be {wanted}, not {got}", "send the webhook body as GitHub made it", path=path)


def ident(parent: Mapping[str, Any], key: str, where: str) -> int:
    """One of GitHub's own ids, which have up to 63 bits."""
    path = f"{where}.{key}" if where else key
    value = parent.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(path, "a whole number", value)
    if not 0 < value <= MAX_ID:
        raise BadRequest(f"{path}: {value} is not an id", path=path)
    return value


def repo_name(parent: Mapping[str, Any], where: str) -> str:
    """``parent.full_name`` as owner/name."""
    name = text(parent, "full_name", where, limit=255)
    if not is_repo(name):
        raise BadRequest(f"{where}.full_name: {name[:100]!r} is not owner/name", path=f"{where}.full_name")
    return name
