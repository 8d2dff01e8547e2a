"""Around a model: what goes to it is scrubbed and paid for beforehand, and what is said is written down.

Needs the library of the extra ``agents``; only ``selector.agents.model`` imports this.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from selector.agents.budget import Meter
from selector.agents.scrub import Scrubber

TRIES = 3
PAUSE_S = 0.25
"""before the second try; twice as long before the third. What an endpoint asks for is kept to instead, if short"""
LONGEST_PAUSE_S = 5.0


class Guarded(WrapperModel):
    """The only way by which anything goes to the endpoint."""

    def __init__(self, wrapped: Model, meter: Meter, scrub: Scrubber, transcript: list[dict[str, str]]) -> None:
        super().__init__(wrapped)
        self.meter, self.scrub, self.transcript = meter, scrub, transcript
        self._noted = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        plain = self.scrub.value(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        clean = ModelMessagesTypeAdapter.validate_python(plain)
        self._note(cast("list[dict[str, Any]]", plain))
        size = len(ModelMessagesTypeAdapter.dump_json(clean)) + len(repr(model_request_parameters))
        answer = await self._paid(clean, model_settings, model_request_parameters, size)
        told = cast(
            "list[dict[str, Any]]", self.scrub.value(ModelMessagesTypeAdapter.dump_python([answer], mode="json"))
        )
        self._note(told, answered=True)
        return answer

    async def _paid(
        self, messages: list[ModelMessage], settings: ModelSettings | None, how: ModelRequestParameters, size: int
    ) -> ModelResponse:
        """Tries again what may pass by itself, each try a step of its own."""
        for attempt in range(TRIES):
            self.meter.step(size, int((settings or {}).get("max_tokens") or 0))
            try:
                answer = await self.wrapped.request(messages, settings, how)
            except ModelAPIError as exc:
                self.meter.count(0, 0, size, 0)  # it was sent: an endpoint may well ask to be paid for it
                pause = _pause(exc, attempt)
                if pause is None or pause >= self.meter.left_s:
                    raise
                await asyncio.sleep(pause)
            except asyncio.CancelledError:
                self.meter.count(0, 0, size, 0)
                raise
            else:
                usage = answer.usage
                self.meter.count(usage.input_tokens, usage.output_tokens, size, len(repr(answer.parts)))
                return answer
        raise AssertionError("the last try raises or returns")

    def _note(self, messages: list[dict[str, Any]], *, answered: bool = False) -> None:
        new = messages if answered else messages[self._noted :]
        self._noted = self._noted + 1 if answered else len(messages)
        for message in new:
            if message.get("instructions") and not self.transcript:
                self.transcript.append({"role": "instructions", "text": str(message["instructions"])})
            for part in message["parts"]:
                role = str(part["part_kind"])
                text = part.get("args") if "args" in part else part.get("content")
                name = str(part.get("tool_name") or "")
                entry = {"role": role, "text": text if isinstance(text, str) else repr(text)}
                self.transcript.append({**entry, "tool": name} if name else entry)


def _pause(exc: ModelAPIError, attempt: int) -> float | None:
    """Seconds to wait before the next try; None: another one is of no use."""
    if attempt == TRIES - 1:
        return None
    if isinstance(exc, ModelHTTPError):
        if exc.status_code not in (408, 409, 429) and exc.status_code < 500:
            return None
        asked = exc.retry_after
        if asked is not None:
            return float(asked) if asked <= LONGEST_PAUSE_S else None
    return PAUSE_S * 2.0**attempt
