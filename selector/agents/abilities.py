"""What an endpoint can do, as it was seen to do it, and the form of a question that follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

Form = Literal["tools", "json-schema", "json-mode", "text"]
"""How a sheet is asked for, best first: as the call of a tool (then the desk's tools may be used as well), as JSON that
the endpoint holds to a schema, as JSON of any kind, as text that holds JSON"""

KEPT_S = 86_400.0
"""seconds that what was seen is taken for true"""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Looked at in this order, and no further than needed: an endpoint with ``tools`` is not asked for the rest."""

    tools: bool
    json_schema: bool = False
    json_mode: bool = False

    @property
    def form(self) -> Form:
        if self.tools:
            return "tools"
        if self.json_schema:
            return "json-schema"
        return "json-mode" if self.json_mode else "text"


def to_bytes(seen: Abilities, at: float) -> bytes:
    return json.dumps({**asdict(seen), "at": at}).encode()


def from_bytes(kept: bytes | None, now: float) -> Abilities | None:
    """What was kept, where it is not too old and can be read."""
    try:
        value = json.loads(kept or b"")
        if not 0 <= now - float(value["at"]) < KEPT_S:
            return None
        return Abilities(bool(value["tools"]), bool(value["json_schema"]), bool(value["json_mode"]))
    except (ValueError, KeyError, TypeError):
        return None
