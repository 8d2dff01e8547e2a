"""Where upstream's commits come from."""

from __future__ import annotations

from relay.mirror.git import Mirror
from relay.settings import Settings


def mirror(settings: Settings) -> Mirror:
    """The mirror of upstream under the data folder."""
    url = settings.upstream_url or f"https://github.com/{settings.upstream_repo}"
    return Mirror(url, settings.data_dir / "mirrors" / f"{settings.upstream_repo.replace('/', '--')}.git")
