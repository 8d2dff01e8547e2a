"""The worker's side of docs/worker-api.md. Every call says what it may mean when it fails."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from relay.errors import Conflict, LeaseLost, NotFound, RelayError, Unauthorized, Unavailable

T = TypeVar("T")
TREE_BYTES = 1 << 30
"""Largest packed tree that is taken, in bytes."""


class Refused(RelayError):
    """The relay understood a call and does not take it."""

    code = "worker-call-refused"
    status = 400


_KNOWN: dict[int, type[RelayError]] = {401: Unauthorized, 404: NotFound, 409: Conflict, 410: LeaseLost}


class Client:
    """Calls with the worker key. ``lease`` makes one with a lease's token."""

    def __init__(self, url: str, token: str, *, timeout: float = 10.0) -> None:
        self._url = url
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=timeout, trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hello(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._json("POST", "/worker/hello", json=body)

    def put_opdb(self, torch: str, text: str) -> None:
        self._send("PUT", f"/worker/opdb/{torch}", content=text.encode(), headers={"Content-Type": "application/json"})

    def lease(self, shard_id: str, worker: str) -> dict[str, Any]:
        """Raises Conflict when somebody else has the shard or it is done, NotFound when there is none."""
        return self._json("POST", f"/worker/shards/{shard_id}/lease", json={"worker": worker})

    def heartbeat(self, shard_id: str) -> dict[str, Any]:
        return self._json("POST", f"/worker/leases/{shard_id}/heartbeat", json={})

    def results(self, shard_id: str, lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
        body = "".join(json.dumps(line) + "\n" for line in lines)
        return self._json(
            "POST",
            f"/worker/leases/{shard_id}/results",
            content=body.encode(),
            headers={"Content-Type": "application/x-ndjson"},
        )

    def log(self, shard_id: str, begin: int, data: bytes) -> None:
        """Sends the bytes of the shard's log from ``begin`` on; for a relay that speaks relay.protocol.LOGS."""
        self._send(
            "PUT",
            f"/worker/leases/{shard_id}/log?begin={begin}",
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )

    def trace(self, shard_id: str, data: bytes) -> None:
        """Sends what the shard's tests ran; for a lease that says ``follow``."""
        self._send(
            "PUT",
            f"/worker/leases/{shard_id}/trace",
            content=data,
            headers={"Content-Type": "application/gzip"},
        )

    def complete(self, shard_id: str, status: str, error: str | None, report: dict[str, Any]) -> None:
        body = {"status": status, "error": error and error[:8000], "report": report}
        self._send("POST", f"/worker/leases/{shard_id}/complete", json=body)

    def release(self, shard_id: str) -> None:
        """Gives a lease back; for a relay that speaks relay.protocol.RELEASE."""
        self._json("POST", f"/worker/leases/{shard_id}/release", json={})

    def tree(self, shard_id: str, to: Path, etag: str | None) -> str | None:
        """Writes the packed tree to ``to`` and returns its ETag; None when the one of ``etag`` is still right."""
        headers = {"If-None-Match": etag} if etag else {}
        try:
            with self._http.stream("GET", f"/worker/leases/{shard_id}/tree", headers=headers) as answer:
                if answer.status_code == 304:
                    return None
                if answer.status_code != 200:
                    answer.read()
                    raise _error(answer)
                size = 0
                with open(to, "wb") as out:
                    # the bytes as they are: the body is a tar.gz, not a compressed transfer of something else
                    for chunk in answer.iter_raw():
                        size += len(chunk)
                        if size > TREE_BYTES:
                            raise Refused(f"the packed tree is over {TREE_BYTES} bytes")
                        out.write(chunk)
                return answer.headers.get("etag") or ""
        except httpx2.TransportError as exc:
            raise Unavailable(f"{self._url} does not answer: {exc}") from exc

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = self._send(method, path, **options)
        try:
            value = answer.json()
        except ValueError as exc:
            raise Unavailable(f"{method} {path}: the answer is not JSON") from exc
        if not isinstance(value, dict):
            raise Unavailable(f"{method} {path}: the answer is not a JSON object")
        return value

    def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx2.TransportError as exc:
            raise Unavailable(f"{self._url} does not answer: {exc}") from exc
        if answer.status_code >= 300:
            raise _error(answer)
        return answer


def _error(answer: httpx2.Response) -> RelayError:
    try:
        problem = answer.json()
        said = str(problem.get("detail") or problem.get("title") or "")
    except (ValueError, AttributeError):
        said = ""
    message = f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {said}".rstrip()
    if answer.status_code >= 500 or answer.status_code == 429:
        return Unavailable(message)
    return _KNOWN.get(answer.status_code, Refused)(message)


def patient(call: Callable[[], T], *, until: float, stop: Callable[[], bool], pause: float = 0.1) -> T:
    """Calls until it works; Unavailable (no answer, 5xx) is tried again, longer and longer apart (at most 2 s).

    ``until`` is a time of ``time.monotonic()``; after it, or when ``stop()`` is true, the last Unavailable is raised.
    """
    while True:
        try:
            return call()
        except Unavailable:
            if stop() or time.monotonic() + pause > until:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, 2.0)
