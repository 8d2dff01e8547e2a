"""The four users' walks over what the seeding command makes; the demo's data is walked in tests/acceptance, and
``tests/bench/tour.py`` walks the whole size and keeps the pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import page_seed
import page_tour
import pytest
from page_browser import chromium, watched

from relay.artifacts import Artifacts
from relay.store.db import migrate, open_engine

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, page_tour.Place]]:
    folder = tmp_path_factory.mktemp("tour")
    database, objects = f"sqlite:///{folder / 'pages.sqlite3'}", folder / "objects"
    engine = open_engine(database)
    migrate(engine)
    size = replace(page_seed.SMALL, results=6_000, runs=200, worker_runs=30)
    page_seed.seed(engine, size, time.time(), Artifacts(str(objects)))
    engine.dispose()
    with page_tour.site(folder, database, str(objects)) as url:
        yield url, page_tour.place(database)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("user", page_tour.WALKS)
def test_each_user_finds_what_they_came_for(browser: Any, seeded: tuple[str, page_tour.Place], user: str) -> None:
    url, place = seeded
    with watched(browser, wait_s=30, missing="/run/0000") as page:
        tour = page_tour.Tour(page, url, place)
        page_tour.WALKS[user](tour)
    assert tour.views >= 3
    assert tour.faults == []
