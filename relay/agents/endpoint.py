"""The way to a model: an HTTP client that holds the key, follows no redirect, and reads no answer without end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2

from relay.agents.settings import AgentSettings
from relay.errors import SettingsError
from selector.agents.abilities import Abilities

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from selector.agents.model import Connect

MAX_ANSWER = 2 * 1024 * 1024
"""bytes of one answer: a sheet has some kilobytes"""
CONNECT_S = 5.0


class AnswerTooLarge(httpx2.TransportError):
    """The endpoint sends more than any sheet can be."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._stream:
            total += len(chunk)
            if total > MAX_ANSWER:
                raise AnswerTooLarge(f"an answer of more than {MAX_ANSWER} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


def need_library() -> None:
    """SettingsError where the extra is not installed."""
    if find_spec("pydantic_ai") is None:
        raise SettingsError(
            "agents.mode asks a model, and the library for that is not installed",
            "pip install 'crcr-relay[agents]', or set agents.mode to off",
        )


def name_of(settings: AgentSettings, model: str) -> str:
    """What records call it: ``models.example.org/some-model``."""
    return f"{urlsplit(settings.url).hostname}/{model}"


def connector(settings: AgentSettings, model: str, key: str) -> Connect:
    """Opens the endpoint for one conversation. What takes long and needs no endpoint is done here, before a question's
    time runs: the library, the certificates. SettingsError where the extra is not installed."""
    need_library()
    import_module(f"pydantic_ai.models.{settings.kind}")
    trust = httpx2.create_ssl_context()

    @asynccontextmanager
    async def connect(abilities: Abilities) -> AsyncIterator[Model]:
        timeout = httpx2.Timeout(settings.seconds, connect=min(CONNECT_S, settings.seconds))
        hooks = {"response": [_bound]}
        async with httpx2.AsyncClient(
            verify=trust, timeout=timeout, follow_redirects=False, event_hooks=hooks
        ) as client:
            yield _model(settings, model, key, client, abilities)

    return connect


def _model(settings: AgentSettings, model: str, key: str, client: httpx2.AsyncClient, abilities: Abilities) -> Model:
    from pydantic_ai.profiles import ModelProfile

    # what was seen of the endpoint, in the place of what the model's name suggests
    seen = ModelProfile(
        supports_tools=abilities.tools,
        supports_json_schema_output=abilities.json_schema,
        supports_json_object_output=abilities.json_mode,
    )
    if settings.kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        # an empty key would be taken from the environment
        provider = AnthropicProvider(api_key=key or "none", base_url=settings.url, http_client=client)
        return AnthropicModel(model, provider=provider, profile=seen)
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    compatible = OpenAICompatibleProvider(
        "agents", base_url=settings.url, api_key=key or "none", http_client=client
    )  # fmt: skip
    return OpenAIChatModel(model, provider=compatible, profile=seen)
