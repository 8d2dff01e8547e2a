"""The GitHub App that a relay needs: least permissions, the events it reads, and what GitHub calls its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

PERMISSIONS: Mapping[str, str] = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""Each with its use: actions cancels and re-runs a downstream's run; checks writes check runs on upstream; contents is
what GitHub asks of who sends a repository_dispatch, and what a config proposal is pushed with; pull_requests comments
and opens config proposals. Every token is asked for with the one that its effect needs, on the one repository."""

OPTIONAL: Mapping[str, str] = {"members": "read", "merge_queues": "read"}
"""Asked for by hand where they are used: teams among those who may act (docs/access.md); downstreams that are told of
merge groups, with the event merge_group."""

EVENTS = ("check_run", "check_suite", "pull_request", "push", "repository")
"""Installations are told to every App, unasked."""


def manifest(url: str, name: str, *, webhook: bool = True) -> dict[str, Any]:
    """The manifest for the relay whose pages are at ``url``. ``webhook``: False where GitHub cannot reach it (yet)."""
    return {
        "name": name,
        "url": url,
        "description": "Tells upstream pull requests whether they break out-of-tree backends.",
        "hook_attributes": {"url": f"{url}/github/webhook", "active": webhook},
        "callback_urls": [f"{url}/sign-in/callback"],
        "request_oauth_on_install": False,
        "setup_on_update": False,
        "public": False,
        "default_permissions": dict(PERMISSIONS),
        "default_events": list(EVENTS),
    }


def form_url(github_url: str, organization: str, state: str) -> str:
    """Where the manifest is posted to: of the organization, or (empty) of whoever is signed in."""
    owner = f"organizations/{organization}/" if organization else ""
    return f"{github_url}/{owner}settings/apps/new?{urlencode({'state': state})}"


def lacking(granted: Mapping[str, str]) -> list[str]:
    """Permissions that an App or an installation does not have, in words."""
    order = {"": 0, "read": 1, "write": 2, "admin": 3}
    return [
        f"{name}: {wanted}" + (f" (has {granted[name]})" if name in granted else "")
        for name, wanted in PERMISSIONS.items()
        if order.get(granted.get(name, ""), 0) < order[wanted]
    ]


def beyond(granted: Mapping[str, str]) -> list[str]:
    """Permissions that it has and does not need."""
    return sorted(f"{name}: {level}" for name, level in granted.items() if name not in {**PERMISSIONS, **OPTIONAL})
