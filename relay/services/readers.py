"""A reader of GitHub, as the settings want it."""

from __future__ import annotations

from functools import partial

import httpx2

from relay.github.client import GitHub, make_http
from relay.github.reads import Reader
from relay.services.secret_files import one_of
from relay.settings import Settings


def make_reader(settings: Settings, timeout: httpx2.Timeout | None = None) -> Reader:
    """Reads GitHub as the App of ``settings``; ``timeout``: for those that somebody waits for."""
    clients = [make_http(settings.github_api_url) for _ in range(2)]
    for client in clients:
        client.timeout = timeout or client.timeout
    key = partial(one_of, settings, "github_private_key")
    github = GitHub(settings.github_api_url, settings.github_app_id, key, http=clients[0])
    return Reader(github, clients[1])
