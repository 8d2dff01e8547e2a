"""The artifact store: what is too large for the database, by name. A folder, or anything that fsspec reaches (S3)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import fsspec

from relay.errors import NotFound, SettingsError, Unavailable
from relay.settings import Settings


class Artifacts:
    """Whole objects under one root. Putting the same name again replaces it: a sender may try as often as it likes."""

    def __init__(self, url: str) -> None:
        try:
            folder = {} if "://" in url else {"auto_mkdir": True}
            self._fs, self._root = fsspec.core.url_to_fs(url, **folder)
        except (ImportError, ValueError) as exc:
            raise SettingsError(f"artifacts_url: {url}: {exc}", "give a folder, or install its kind's driver") from exc

    def put(self, name: str, data: bytes) -> None:
        """Unavailable when the store does not take it (full, away)."""
        try:
            self._fs.pipe_file(f"{self._root}/{name}", data)
        except OSError as exc:
            raise Unavailable(f"the artifact store does not take {name}: {exc}", "free space there") from exc

    def get(self, name: str) -> bytes:
        """NotFound when it is not there; Unavailable when the store does not answer."""
        try:
            data: Any = self._fs.cat_file(f"{self._root}/{name}")
        except FileNotFoundError as exc:
            raise NotFound(f"the artifact {name} is not there", "it may have been too old to be kept") from exc
        except OSError as exc:
            raise Unavailable(f"the artifact store does not give {name}: {exc}", "try again a little later") from exc
        return bytes(data)

    def drop(self, name: str) -> None:
        """Removes it; one that is not there is as good. Unavailable when the store does not answer."""
        try:
            self._fs.rm_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return
        except OSError as exc:
            raise Unavailable(f"the artifact store does not remove {name}: {exc}", "see its log") from exc

    def drop_in_order(self, names: Iterable[str]) -> int:
        """Removes one after the other, for as long as the store answers; -> how many. Unavailable when it was none."""
        gone = 0
        try:
            for name in names:
                self.drop(name)
                gone += 1
        except Unavailable:
            if not gone:
                raise
        return gone


def artifacts(settings: Settings) -> Artifacts:
    """The store of these settings. SettingsError for one that cannot be reached by name."""
    return _of(settings.artifacts_url or str((settings.data_dir / "artifacts").absolute()))


@lru_cache(maxsize=8)
def _of(url: str) -> Artifacts:
    return Artifacts(url)
