"""The op database as JSON: what a worker exports and everybody else reads. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from selector.errors import SelectorError
from selector.model import OpDatabase, OpEntry


class OpDatabaseError(SelectorError):
    """JSON that is not an op database."""

    code = "opdb-invalid"


_HINT = "export it again with python -m relay.worker.opdb"


def to_json(database: OpDatabase) -> str:
    """Canonical JSON: the same database gives the same text, so that its digest means something."""
    value = {
        "torch": database.torch,
        "modules": list(database.modules),
        "ops": [
            {
                "name": op.name,
                "variant": op.variant,
                "aten": op.aten,
                "lists": list(op.lists),
                "dtypes": list(op.dtypes),
                "ref": op.ref,
                "aliases": list(op.aliases),
                "kernel": op.kernel,
            }
            for op in database.ops
        ],
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def from_json(text: str | bytes) -> OpDatabase:
    """Reads what ``to_json`` wrote. Raises OpDatabaseError that says what is wrong."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise OpDatabaseError(f"the op database is not JSON: {exc}", _HINT) from exc
    return from_value(value)


def from_value(value: object) -> OpDatabase:
    """The same from a parsed JSON value."""
    if not isinstance(value, Mapping):
        raise OpDatabaseError("the op database is not a JSON object", _HINT)
    ops = value.get("ops")
    if not isinstance(ops, list):
        raise OpDatabaseError("the op database has no list of ops", _HINT)
    torch = value.get("torch")
    if not isinstance(torch, str) or not torch:
        raise OpDatabaseError("the op database does not say which torch it is of", _HINT)
    entries = tuple(_entry(op, n) for n, op in enumerate(ops))
    return OpDatabase(torch, entries, _strings(value, "modules", "the head"))


def digest(database: OpDatabase) -> str:
    """SHA-256 (hex) of the canonical JSON."""
    return hashlib.sha256(to_json(database).encode()).hexdigest()


def _entry(value: Any, number: int) -> OpEntry:
    where = f"op {number}"
    if not isinstance(value, Mapping):
        raise OpDatabaseError(f"{where} of the op database is not a JSON object", _HINT)
    texts = {}
    for key in ("name", "variant", "aten", "ref", "kernel"):
        text = value.get(key, "")
        if not isinstance(text, str):
            raise OpDatabaseError(f"{where} of the op database: {key} is not a string", _HINT)
        texts[key] = text
    if not texts["name"]:
        raise OpDatabaseError(f"{where} of the op database has no name", _HINT)
    return OpEntry(
        name=texts["name"],
        variant=texts["variant"],
        aten=texts["aten"],
        lists=_strings(value, "lists", where),
        dtypes=_strings(value, "dtypes", where),
        ref=texts["ref"],
        aliases=_strings(value, "aliases", where),
        kernel=texts["kernel"],
    )


def _strings(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise OpDatabaseError(f"{where} of the op database: {key} is not a list of strings", _HINT)
    return tuple(found)
