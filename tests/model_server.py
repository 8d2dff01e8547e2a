"""A local endpoint that speaks OpenAI's chat completions over real HTTP, and behaves as it is told: well, or badly.
Under ``/v1/messages`` it speaks Anthropic's protocol, and is asked and answers the same.

It is scripted: it finds the ids that a question names, and answers about each from a table, with quotes out of the
sources that it was given. Every request is kept, so that tests can look for what must not be in one.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "key-of-the-endpoint-7e1c94"
ID = re.compile(r"test/[\w/]+\.py::\w+::\w+")
FAILURE = re.compile(r"^failure (\w+) \(", re.M)


@dataclass
class Request:
    """One request as it came: the whole body as text, the same as JSON, and the headers."""

    text: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def tools(self) -> set[str]:
        return {tool["function"]["name"] for tool in self.body.get("tools", ())}

    @property
    def instructions(self) -> str:
        return "\n".join(_content(m) for m in self.body["messages"] if m["role"] in ("system", "developer"))

    @property
    def prompt(self) -> str:
        return next(_content(m) for m in self.body["messages"] if m["role"] == "user")

    @property
    def told(self) -> int:
        """Answers of tools so far."""
        return sum(m["role"] == "tool" for m in self.body["messages"])

    @property
    def about(self) -> str:
        words = {
            "You read tests": "triage",
            "Another reader": "critic",
            "touches files": "suspects",
            "own trunk": "configs",
            "to be the\ncause": "causes",
        }
        return next((name for start, name in words.items() if start in self.instructions), "probe")

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(ID.findall(self.prompt)))


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


Lines = Callable[[Request], list[dict[str, Any]]]
"""what a model writes into a sheet"""


@dataclass
class Server:
    """``lines``: what it says; ``misbehave``: what it does instead, None to answer; ``tools``, ``schema`` and ``mode``:
    what it can do (a 400 where it cannot)."""

    lines: Lines
    misbehave: Callable[[Request, BaseHTTPRequestHandler], bool] | None = None
    tools: bool = True
    schema: bool = True
    mode: bool = True
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def asked(self) -> list[Request]:
        """The questions; looks at what the endpoint can do are left out."""
        return [one for one in self.requests if one.about != "probe"]


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(text)
            self.anthropic = self.path.startswith("/v1/messages")
            request = Request(text, _as_openai(body) if self.anthropic else body, headers)
            server.requests.append(request)
            try:
                if request.about != "probe" and server.misbehave is not None and server.misbehave(request, self):
                    return
                _answer(server, request, self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # who asked has gone: it had no more time

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        stopping = server.stop
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # who asked has gone in the middle of it

        block_on_close = False

    http = Quiet(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        http.shutdown()
        http.server_close()
        thread.join(5)


def _as_openai(body: dict[str, Any]) -> dict[str, Any]:
    """A request of Anthropic's protocol, in the words of the other one: what the scripts look at."""
    system = body.get("system") or ""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for message in body["messages"]:
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        text = "".join(part.get("text", "") for part in parts if part["type"] == "text")
        messages += [{"role": "tool", "content": "told"} for part in parts if part["type"] == "tool_result"]
        if text:
            messages.append({"role": message["role"], "content": text})
    tools = [{"type": "function", "function": {"name": tool["name"]}} for tool in body.get("tools", ())]
    return {**body, "messages": messages, **({"tools": tools} if tools else {})}


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def refuse(handler: BaseHTTPRequestHandler, status: int, message: str, **headers: str) -> bool:
    send(handler, status, json.dumps({"error": {"message": message, "type": "error"}}).encode(), **headers)
    return True


def say(
    handler: BaseHTTPRequestHandler,
    *,
    text: str | None = None,
    calls: list[tuple[str, str]] | None = None,
    tokens: int = 50,
) -> bool:
    """A completion: text, or calls of tools as (name, arguments as JSON)."""
    if getattr(handler, "anthropic", False):
        return _say_as_anthropic(handler, text, calls or [], tokens)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{at}_{time.monotonic_ns()}", "type": "function", "function": {"name": n, "arguments": a}}
            for at, (n, a) in enumerate(calls)
        ]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": 2 * tokens},
    }
    send(handler, 200, json.dumps(body).encode())
    return True


def _say_as_anthropic(
    handler: BaseHTTPRequestHandler, text: str | None, calls: list[tuple[str, str]], tokens: int
) -> bool:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{at}_{time.monotonic_ns()}", "name": name, "input": json.loads(arguments)}
        for at, (name, arguments) in enumerate(calls)
    ]
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": tokens},
    }
    send(handler, 200, json.dumps(body).encode())
    return True


def _answer(server: Server, request: Request, handler: BaseHTTPRequestHandler) -> None:
    form = (request.body.get("response_format") or {}).get("type")
    if request.tools and not server.tools:
        refuse(handler, 400, "this model has no tools")
    elif form == "json_schema" and not server.schema:
        refuse(handler, 400, "response_format json_schema is not supported")
    elif form == "json_object" and not server.mode:
        refuse(handler, 400, "response_format json_object is not supported")
    elif request.about == "probe":
        if "look" in request.tools and not request.told:
            say(handler, calls=[("look", '{"word": "seven"}')])
        else:
            _sheet(request, handler, {"word": "seven"})
    else:
        _sheet(request, handler, {"lines": server.lines(request)})


def _sheet(request: Request, handler: BaseHTTPRequestHandler, value: dict[str, Any]) -> None:
    if "answer" in request.tools:
        say(handler, calls=[("answer", json.dumps(value))])
    else:
        say(handler, text=json.dumps(value))


@dataclass(frozen=True)
class Script:
    """A model that can read: ``sources`` by path; ``drops``: test -> ground. It drops nothing else, and as a critic it
    confirms what ``agrees`` says (None: what it would drop itself)."""

    sources: Mapping[str, str]
    drops: Mapping[str, str] = field(default_factory=dict)
    agrees: frozenset[str] | None = None
    suspects: tuple[str, ...] = ()
    says: str = "as its source shows"

    def __call__(self, request: Request) -> list[dict[str, Any]]:
        return getattr(self, f"_{request.about}")(request)

    def _triage(self, request: Request) -> list[dict[str, Any]]:
        return [self._line(test, test not in self.drops, self.drops.get(test)) for test in request.ids]

    def _critic(self, request: Request) -> list[dict[str, Any]]:
        agrees = frozenset(self.drops) if self.agrees is None else self.agrees
        return [
            {"test": t, "confirm": t in agrees, "reason": self.says, "quote": self.quote(t, 1)} for t in request.ids
        ]

    def _suspects(self, request: Request) -> list[dict[str, Any]]:
        return [{"test": t, "reason": self.says, "quote": self.quote(t, 0)} for t in self.suspects]

    def _line(self, test: str, keep: bool, ground: str | None) -> dict[str, Any]:
        return {"test": test, "keep": keep, "ground": ground, "reason": self.says, "quote": self.quote(test, 0)}

    def quote(self, test: str, below: int) -> dict[str, str]:
        """The line of the test's ``def``, or one ``below`` it."""
        path, _, method = test.split("::")
        lines = self.sources.get(path, "").splitlines()
        at = next((n for n, line in enumerate(lines) if f"def {method}(" in line), None)
        return {"path": path, "text": lines[at + below].strip() if at is not None else "not to be found"}
