"""Where upstream's commits come from."""

from __future__ import annotations

from relay.mirror.git import Mirror
from relay.settings import Settings


def mirror(settings: Settings) -> Mirror:
    """The mirror of upstream under the data folder."""
    url = settings.upstream_url or f"{settings.github_url}/{settings.upstream_repo}"
    path = settings.data_dir / "mirrors" / f"{settings.upstream_repo.replace('/', '--')}.git"
    # what lies in a folder is copied as fast as it is listed; over a network all of PyTorch's history takes an hour
    partial = settings.upstream_partial
    return Mirror(url, path, partial=url.startswith(("https://", "ssh://")) if partial is None else partial)
