"""The settings ``[agents]``: which model is asked, and how much it may use. docs/agents.md says what for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from relay.errors import SettingsError
from selector.agents.budget import Limits, Prices


class AgentSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mode: Literal["off", "shadow", "on"] = Field(
        "off",
        description="off: rules alone; shadow: a model is asked and nobody acts on it; on: what is checked is taken.",
    )
    kind: Literal["openai", "anthropic"] = Field(
        "openai", description="What the endpoint speaks: OpenAI's chat completions, or Anthropic's messages."
    )
    url: str = Field("", description="Its base URL, such as https://models.example.org/v1.")
    model: str = Field("", description="Name of the model there.")
    critic_model: str = Field("", description="Name of the model that must agree before a drop; empty: the same.")
    key: SecretStr = Field(SecretStr(""), description="Key of the endpoint; best in RELAY_AGENTS__KEY.")
    key_file: str = Field("", description="File with the key, read for each run: rotation without a restart.")
    steps: int = Field(24, ge=1, description="Requests to the model that one run may make.")
    tokens: int = Field(150_000, ge=1, description="Tokens, read and written, that one run may use.")
    usd: float = Field(0.5, gt=0, description="US dollars that one run may cost, by the two prices below.")
    seconds: float = Field(30.0, gt=0, le=600, description="Seconds that a run may wait for the model, all in all.")
    input_usd: float = Field(0.0, ge=0, description="US dollars for a million tokens read; 0: free, or not known.")
    output_usd: float = Field(0.0, ge=0, description="US dollars for a million tokens written.")
    room_seconds: float = Field(
        30.0, ge=0, description="Seconds of each worker for tests that only the model suspects, beside the budget."
    )
    keep_days: float = Field(30.0, gt=0, description="Days that records of what was asked and said are kept.")

    @field_validator("key", mode="before")
    @classmethod
    def _strip(cls, value: Any) -> Any:
        return value.strip() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _whole(self) -> AgentSettings:
        if self.mode == "off":
            return self
        if not self.model:
            raise ValueError(f"mode is {self.mode!r}, and no model is named: set agents.model")
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ValueError("url is no http(s) address, such as https://models.example.org/v1: set agents.url")
        if place.username or place.password:
            raise ValueError("url holds a password: the key has settings of its own, key and key_file")
        return self

    @property
    def limits(self) -> Limits:
        return Limits(self.steps, self.tokens, self.usd, self.seconds)

    @property
    def prices(self) -> Prices:
        return Prices(self.input_usd, self.output_usd)

    def read_key(self) -> str:
        """The key; '' where the endpoint wants none. SettingsError for a file that cannot be read."""
        if not self.key_file:
            return self.key.get_secret_value()
        try:
            return Path(self.key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "not text"
            raise SettingsError(
                f"agents.key_file: {self.key_file}: {reason}", "name a file with the key alone"
            ) from exc
