"""The caches on disk do not grow for ever: what nobody asks for goes, what is asked for stays however old it is."""

from __future__ import annotations

import os
import time
from pathlib import Path

from relay.services import caches
from relay.settings import Settings
from selector.discover import DirectoryCache

DAY = 86400.0


def aged(folder: Path, days: float) -> None:
    then = time.time() - days * DAY
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_an_entry_that_is_read_stays_and_the_others_go(tmp_path: Path) -> None:
    cache = DirectoryCache(tmp_path)
    for key in ("wanted-aa", "forgotten-aa", "forgotten-bb"):
        cache.put(key, key.encode())
    aged(tmp_path, 31)
    assert cache.get("wanted-aa") == b"wanted-aa"
    cache.put("new-aa", b"new")
    assert cache.forget(time.time() - 30 * DAY) == 2
    assert [cache.get(key) for key in ("wanted-aa", "forgotten-aa", "forgotten-bb", "new-aa")] == [
        b"wanted-aa", None, None, b"new",
    ]  # fmt: skip
    assert DirectoryCache(tmp_path / "none").forget(time.time()) == 0


def test_reading_writes_once_a_day_and_no_more(tmp_path: Path) -> None:
    now = time.time()
    cache = DirectoryCache(tmp_path, lambda: now + 3 * DAY)
    cache.put("a-aa", b"x")
    (path,) = (one for one in tmp_path.rglob("*") if one.is_file())
    cache.get("a-aa")
    first = path.stat().st_mtime
    assert first == now + 3 * DAY
    later = DirectoryCache(tmp_path, lambda: now + 3.9 * DAY)
    later.get("a-aa")
    assert path.stat().st_mtime == first


def test_what_a_writer_that_died_left_goes_as_well(tmp_path: Path) -> None:
    cache = DirectoryCache(tmp_path)
    cache.put("a-aa", b"x")
    (tmp_path / "aa" / ".part-1").write_bytes(b"half")
    aged(tmp_path / "aa", 31)
    assert cache.forget(time.time() - 30 * DAY) == 2


def test_the_relays_own_are_looked_at_once_a_day(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    for name in caches.NAMES:
        caches.cache(settings, name).put("a-aa", b"x")
        aged(tmp_path / "cache" / name, 31)
    now = time.time()
    assert caches.tidy(settings, now) == 2
    caches.cache(settings, "agents").put("b-bb", b"x")
    aged(tmp_path / "cache" / "agents", 31)
    assert caches.tidy(settings, now + DAY / 2) == 0
    assert caches.tidy(settings, now + 2 * DAY) == 1
