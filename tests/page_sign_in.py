"""Signing in to the pages as a person does, without a browser: by way of a local GitHub and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import outbound_servers
from fastapi.testclient import TestClient

from relay.demo.github_people import CLIENT_ID, CLIENT_SECRET


@contextmanager
def signing_in_at(folder: Path, *people: str) -> Iterator[dict[str, Any]]:
    """A GitHub that knows ``people``, who are operators; -> the settings that lead there."""
    with outbound_servers.local_github(folder) as github:
        for login in people:
            github.hub.people.add(login)
        yield {
            "github_api_url": github.url,
            "github_url": github.url,
            "oauth_client_id": CLIENT_ID,
            "oauth_client_secret": CLIENT_SECRET,
            "operators": list(people),
        }


def sign_in(client: TestClient, login: str) -> None:
    """``client`` has a session of ``login`` from now on; its address has to be the ``public_url`` of the settings."""
    there = client.get("/sign-in?next=/about", follow_redirects=False).headers["location"]
    back = urlsplit(httpx2.get(f"{there}&login={login}", trust_env=False).headers["location"])
    answer = client.get(f"{back.path}?{back.query}")
    assert answer.url.path == "/about", answer.text[:300]
    assert login in answer.text
