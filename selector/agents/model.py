"""A model behind an endpoint, asked through pydantic-ai. Needs the extra ``agents``; the model is handed in, with the
HTTP client that reaches it and the key that the client holds."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, cast

from pydantic_ai import Agent, NativeOutput, PromptedOutput, Tool, ToolOutput, UsageLimits
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from selector.agents.abilities import Abilities, Form, from_bytes, to_bytes
from selector.agents.budget import Meter, OverBudget
from selector.agents.guard import Guarded
from selector.agents.mind import Question, Reply
from selector.agents.records import Unanswered
from selector.agents.scrub import Scrubber
from selector.agents.sheets import AnySheet, Sheet
from selector.discover import InventoryCache
from selector.verify.text import clean

Connect = Callable[[Abilities], AbstractAsyncContextManager[Model]]
"""opens the model for one conversation, as one that has these abilities, and closes its connections afterwards"""
MAX_TOKENS = 4_000
"""of one answer"""
TOOL_CALLS = 40
"""of one question"""
PROBE_TOKENS = 200
WORD = "seven"


class Word(Sheet):
    word: str


class ModelMind:
    """Asks a model, each question in a conversation of its own. Not to be called from a running event loop.

    ``name`` names endpoint and model; ``cache`` keeps what was seen of the endpoint; ``now``: seconds since the epoch.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        scrub: Scrubber,
        now: Callable[[], float],
        cache: InventoryCache | None = None,
    ) -> None:
        self.name = name
        self._connect, self._scrub, self._now, self._cache = connect, scrub, now, cache
        self._key = "abilities-" + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        self._abilities: Abilities | None = None

    def ask(self, question: Question[AnySheet], meter: Meter) -> Reply[AnySheet]:
        """Raises Unanswered."""
        said: list[dict[str, str]] = []
        try:
            return asyncio.run(self._in_time(question, meter, said))
        except TimeoutError as exc:
            raise Unanswered("agent-timeout", f"no answer within {meter.limits.seconds:g} s", said) from exc
        except OverBudget as exc:
            code = "agent-timeout" if meter.left_s <= 0 else "agent-budget"
            raise Unanswered(code, f"used up: {exc}", said) from exc
        except UsageLimitExceeded as exc:
            raise Unanswered("agent-budget", f"used up: {TOOL_CALLS} calls of tools", said) from exc
        except ModelHTTPError as exc:
            raise Unanswered(_code_of(exc.status_code), f"the endpoint answered {exc.status_code}", said) from exc
        except ModelAPIError as exc:
            raise Unanswered("agent-unavailable", f"the endpoint cannot be used: {type(exc).__name__}", said) from exc
        except (UnexpectedModelBehavior, AgentRunError, ValueError) as exc:
            raise Unanswered("agent-no-sheet", f"no sheet came back: {type(exc).__name__}", said) from exc
        except Exception as exc:
            # a stranger's answer goes through two libraries: whatever it breaks there must not end a selection
            raise Unanswered("agent-broke", f"the agent failed: {type(exc).__name__}", said) from exc

    async def _in_time(self, question: Question[AnySheet], meter: Meter, said: list[dict[str, str]]) -> Reply[AnySheet]:
        async with AsyncExitStack() as open_:
            await open_.enter_async_context(asyncio.timeout(max(0.0, meter.left_s)))
            abilities = self._abilities or await self._look(meter)
            model = await open_.enter_async_context(self._connect(abilities))
            guarded = Guarded(model, meter, self._scrub, said)
            prompt = question.prompt
            if not abilities.tools:
                prompt = f"{prompt}\n\n{question.at_hand()}"
            output = _output(abilities.form, question.sheet)
            agent = Agent(
                guarded,
                output_type=output,
                instructions=question.instructions,
                tools=_tools(question) if abilities.tools else (),
                retries=1,
                model_settings=ModelSettings(max_tokens=MAX_TOKENS, max_retries=0),
            )
            limits = UsageLimits(request_limit=None, tool_calls_limit=TOOL_CALLS)
            result = await agent.run(prompt, usage_limits=limits)
            told = _fit(cast(Sheet, result.output).model_dump(mode="json"), self._scrub)
            return Reply(question.sheet.model_validate(told), tuple(said), abilities.form)

    # ----------------------------------------------------------------------------------------------- what it can do

    async def _look(self, meter: Meter) -> Abilities:
        """Tries what the endpoint can do, best first; kept for a day. Only a plain no is a no: what fails otherwise
        (no room, no connection) ends the question, and is tried again with the next."""
        kept = from_bytes(self._cache.get(self._key) if self._cache is not None else None, self._now())
        if kept is None:
            tries = (
                (Abilities(tools=True), self._uses_tools),
                (Abilities(False, json_schema=True), self._fills_schema),
                (Abilities(False, json_mode=True), self._fills_prompted),
            )
            kept = Abilities(False)
            for abilities, probe in tries:
                if await self._can(probe, meter, abilities):
                    kept = abilities
                    break
            if self._cache is not None:
                self._cache.put(self._key, to_bytes(kept, self._now()))
        self._abilities = kept
        return kept

    async def _can(self, probe: Callable[[Guarded], Awaitable[bool]], meter: Meter, abilities: Abilities) -> bool:
        try:
            async with self._connect(abilities) as model:
                return await probe(Guarded(model, meter, self._scrub, []))
        except ModelHTTPError as exc:
            if exc.status_code in (400, 404, 415, 422, 501):
                return False
            raise
        except (UnexpectedModelBehavior, UsageLimitExceeded, UserError):
            return False  # it answers, but not in this form

    async def _uses_tools(self, model: Guarded) -> bool:
        called: list[str] = []

        def look(word: str) -> str:
            """Looks a word up."""
            called.append(word)
            return f"{word} is a number"

        agent = Agent(model, output_type=ToolOutput(Word, name="answer"), tools=[look], retries=1, model_settings=PROBE)
        prompt = f"Call the tool look with the word {WORD!r}, then answer with that word."
        await agent.run(prompt, usage_limits=UsageLimits(request_limit=3, tool_calls_limit=3))
        return bool(called)

    async def _fills_schema(self, model: Guarded) -> bool:
        agent = Agent(model, output_type=NativeOutput(Word), retries=0, model_settings=PROBE)
        await agent.run(f"Answer with the word {WORD!r}.", usage_limits=UsageLimits(request_limit=2))
        return True

    async def _fills_prompted(self, model: Guarded) -> bool:
        agent = Agent(model, output_type=PromptedOutput(Word), retries=0, model_settings=PROBE)
        await agent.run(f"Answer with the word {WORD!r}.", usage_limits=UsageLimits(request_limit=2))
        return True


def _output(form: Form, sheet: type[Sheet]) -> Any:
    if form == "tools":
        return ToolOutput(sheet, name="answer")
    return NativeOutput(sheet) if form == "json-schema" else PromptedOutput(sheet)


PROBE = ModelSettings(max_tokens=PROBE_TOKENS, max_retries=0)


def _tools(question: Question[Any]) -> list[Tool[None]]:
    """The desk's methods that the question allows, one at a time."""
    found = []
    for name in question.tools:
        method = getattr(question.desk, name)
        told = inspect.getdoc(method)
        found.append(Tool[None](method, takes_ctx=False, name=name, description=told, sequential=True))
    return found


def _fit(value: Any, scrub: Scrubber) -> Any:
    """Every text of a sheet on one line, without secrets, control and invisible characters: a model may repeat what it
    was sent, the key's header too where the endpoint hands it on."""
    if isinstance(value, str):
        return clean(scrub(value))
    if isinstance(value, dict):
        return {key: _fit(item, scrub) for key, item in value.items()}
    return [_fit(item, scrub) for item in value] if isinstance(value, list) else value


def _code_of(status: int) -> str:
    if status == 429:
        return "agent-rate-limited"
    return "agent-unavailable" if status >= 500 or status == 408 else "agent-rejected"
