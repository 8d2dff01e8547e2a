"""Posts rows to the dashboard. An upsert by the row's own key: sending one twice changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from relay.domain.retry import Reply
from relay.github.client import Answer, exchange, make_http


class Hud:
    """The dashboard at ``url``; ``bot_key`` goes into ``x-hud-internal-bot``."""

    def __init__(
        self,
        url: str,
        bot_key: str | Callable[[], str],
        *,
        http: httpx2.Client | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self._bot_key = bot_key if callable(bot_key) else lambda: bot_key
        self._http = http or make_http(url)
        self._clock = clock

    def close(self) -> None:
        self._http.close()

    def post(self, row: Mapping[str, Any]) -> Answer:
        if not self.url:
            return Answer(Reply(None, reached=False, detail="hud_url is not set: the row waits for it"))
        headers = {"x-hud-internal-bot": self._bot_key()}
        return exchange(self._http, "POST", self.url, now=self._clock(), own=huds, json=row, headers=headers)


def huds(response: httpx2.Response, body: Any) -> bool:
    """Of a row that it took the dashboard says ``ok``; what it refuses it gives an error for, as JSON."""
    if response.is_success:
        return isinstance(body, dict) and body.get("ok") is True
    return not response.is_client_error or isinstance(body, dict)
