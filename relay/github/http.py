"""One HTTP request as an Answer: transport errors are answers too. Nothing here retries, sleeps or follows.

Between us and a service stand proxies, and the service itself may be half there: an answer counts as the service's own
only where it has the shape of one (``Own``). Anything else says nothing about what was done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

from relay import __version__
from relay.domain.retry import Reply, wait_asked
from relay.github.true_time import date_of

TIMEOUT = httpx2.Timeout(connect=2.0, write=2.0, read=8.0, pool=1.0)
"""Sum 13 s: the longest one call can take, below relay.store.outbox.CLAIM_S."""
ANSWER_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request came to; ``body`` is the JSON of a success, ``location`` where a 3xx points to, ``date`` when it
    was answered by the service's own clock (seconds since the epoch)."""

    reply: Reply
    body: Any = None
    location: str | None = None
    date: float | None = None


Own = Callable[[httpx2.Response, Any], bool]
"""Whether an answer (with the JSON of its body, or None) can be the service's own."""


def anything(_response: httpx2.Response, _body: Any) -> bool:
    return True


def githubs(response: httpx2.Response, body: Any) -> bool:
    """GitHub's API answers with JSON or with nothing; what it refuses it gives a message for."""
    if response.is_success:
        return not response.content or isinstance(body, dict | list)
    return not response.is_client_error or (isinstance(body, dict) and "message" in body)


def foreign(answer: Answer) -> Answer:
    """The answer as one that is not the service's own."""
    return replace(answer, reply=replace(answer.reply, foreign=True))


def exchange(
    http: httpx2.Client,
    method: str,
    url: str,
    *,
    now: float,
    auth: bool = False,
    own: Own = anything,
    **request: Any,
) -> Answer:
    """One HTTP request as an Answer."""
    try:
        response = http.request(method, url, **request)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
        return Answer(Reply(None, reached=False, detail=_describe(exc), auth=auth))
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.LocalProtocolError, httpx2.ProxyError) as exc:
        return Answer(Reply(None, reached=False, detail=_describe(exc), auth=auth))
    except httpx2.HTTPError as exc:
        return Answer(Reply(None, reached=not auth, detail=_describe(exc), auth=auth))
    wait = wait_asked(response.status_code, response.headers, response.text, now)
    body: Any = None
    if response.content:
        try:
            body = response.json()
        except ValueError:
            body = None
    reply = Reply(
        response.status_code,
        reached=not auth,
        retry_after=wait,
        detail=_said(response, body),
        auth=auth,
        foreign=not own(response, body),
    )
    location = response.headers.get("location") if 300 <= response.status_code < 400 else None
    return Answer(reply, body if response.is_success else None, location, date_of(response.headers.get("date")))


def make_http(url: str) -> httpx2.Client:
    """A client for the service at ``url`` with our timeouts and name; connections are kept between senders. A proxy
    from the environment is used, but never for this machine itself."""
    return httpx2.Client(
        timeout=TIMEOUT,
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=60.0),
        headers={"User-Agent": f"crcr-relay/{__version__}"},
        trust_env=urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"),
    )


def _describe(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}"[:ANSWER_LIMIT]


def _said(response: httpx2.Response, body: Any) -> str:
    request = response.request
    message = body.get("message") if isinstance(body, dict) else None
    text = message if isinstance(message, str) else response.text
    where = f" (to {response.headers['location']})" if "location" in response.headers else ""
    return f"{request.method} {request.url.path}: {response.status_code}{where} {text}".strip()[:ANSWER_LIMIT]
