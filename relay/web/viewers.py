"""Who looks at a page: found once a request, from the session's cookie."""

from __future__ import annotations

from fastapi import Request

from relay.domain.access import Viewer


def viewer_of(request: Request) -> Viewer | None:
    """The person who has signed in, None: nobody has."""
    viewer: Viewer | None = request.scope.get("relay_viewer")
    return viewer
