"""``relay config schema``: JSON Schema (2020-12) of the format, for editors; made from the models that check it."""

from __future__ import annotations

from typing import Any

from selector.configs.schema import ConfigFile


def json_schema() -> dict[str, Any]:
    """The schema of a config file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ConfigFile.model_json_schema()}
