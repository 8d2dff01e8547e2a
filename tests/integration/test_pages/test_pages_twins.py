"""Every JSON twin is as its documented schema says, field by field; OpenAPI has them all, with examples that hold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import page_seed
import page_sign_in
import pytest
import schemathesis
from fastapi.datastructures import DefaultPlaceholder
from fastapi.responses import HTMLResponse
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator
from jsonschema_rs import ValidationError

from relay.artifacts import artifacts
from relay.settings import Settings
from relay.store import audit, test_names
from relay.store.db import migrate, open_engine
from relay.web.app import create_app
from relay.web.page_route import PageRoute
from relay.web.twins.table import OTHERS, TWINS, examples

LOGIT = "test/test_ops.py::TestCommon::test_out"


ELSEWHERE = {"/run/{id}/log/{shard}.json", "/upgrade/{pair:path}.json"}
"""These need a log and a comparison: test_pages_log.py and test_upgrade_pages.py hold them against their models."""
URL = "https://relay.example"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with page_sign_in.signing_in_at(tmp_path, "oscar") as known:
        yield Settings(data_dir=tmp_path, public_url=URL, **known)


@pytest.fixture
def client(world: Any, settings: Settings) -> Iterator[TestClient]:
    """An operator: some twins are for them."""
    with TestClient(create_app(settings), base_url=URL) as client:
        page_sign_in.sign_in(client, "oscar")
        yield client


def hold(client: Any, path: str, address: str) -> dict[str, Any]:
    answer = client.get(address)
    assert answer.status_code == 200, f"{address}: {answer.text[:300]}"
    value: dict[str, Any] = answer.json()
    TWINS[path].model_validate(value)
    return value


def all_of(client: Any, **known: list[str]) -> None:
    for path in TWINS:
        if path in ELSEWHERE:
            continue
        name = next((name for name in known if f"{{{name}" in path), None)
        if name is None and "{" not in path:
            hold(client, path, path)
        for value in known.get(name or "", ()):
            hold(
                client, path, path.replace("{test:path}", value).replace(f"{{{name}}}", value).replace("{repo}", value)
            )


def test_twins_of_an_empty_relay(client: Any) -> None:
    all_of(client)


def test_twins_of_every_state_of_a_run(client: Any, world: Any) -> None:
    failed, (running, _) = world.failed_run(), world.running(pr_number=171300, head_sha="c" * 40)
    fine = world.dispatch("completed", downstream="acme/accelerator", executor="github", conclusion="success",
                          device=None, level="L2", closed_at=world.now)  # fmt: skip
    world.job(fine, "unit (3.12)", "completed", "success", results={"passed": 10, "failed": 0})
    world.job(failed, "spyre", "in_progress")
    others = [world.dispatch(state, pr_number=n, head_sha=f"{n:040x}") for n, state in enumerate(
        ("selecting", "sending", "sent", "confirming", "verifying", "superseded", "failed"), 1)]  # fmt: skip
    push = world.dispatch("completed", event="push", pr_number=None, pr_title=None, author=None, base_sha=None,
                          conclusion="neutral", closed_at=world.now, head_sha="e" * 40)  # fmt: skip
    world.worker("emulator-1")
    world.delivery("ignored", code="draft", reason="the pull request is a draft", action=None, repo=None)
    world.effect(None, "hud", state="parked", last_error="HTTP 403", last_status=403)
    with world.engine.begin() as conn:
        test_names.note(conn, [LOGIT])
        audit.record(conn, [audit.entry("outbox.retry", "a/b", now=world.now, actor="oscar", detail={"effect": 3})])
    all_of(client, id=[failed, running, fine, push, *others], number=["171234", "171300", "1"], test=[LOGIT])
    for state in ("due", "sent", "parked", "dropped"):
        hold(client, "/outbox.json", f"/outbox.json?state={state}")
    for q in (failed, "171234", LOGIT, "torch", "5f1d9c0a7", "nothing"):
        hold(client, "/search.json", f"/search.json?q={q}")
    for repo in ("torch-spyre/torch-spyre", "acme/accelerator"):
        hold(client, "/crcr/{owner}/{repo}.json", f"/crcr/{repo}.json")
    hold(client, "/run/{id}.json", f"/run/{failed}.json?outcome=failed&stage=triage")


def test_twins_of_a_busy_relay(settings: Settings) -> None:
    engine = open_engine(settings.database)
    migrate(engine)
    size = replace(page_seed.SMALL, results=2_400)
    seeded = page_seed.seed(engine, size, time.time(), artifacts(settings))
    engine.dispose()
    with TestClient(create_app(settings), base_url=URL) as client:
        page_sign_in.sign_in(client, "oscar")
        all_of(client, id=[seeded.run, seeded.open_run], number=[str(seeded.pr)], test=[seeded.test])
        for repo in (seeded.backend, "elsewhere-01/backend"):  # ours, and one that another relay reports
            hold(client, "/crcr/{owner}/{repo}.json", f"/crcr/{repo}.json")
            grouped = hold(client, "/crcr/{owner}/{repo}.json", f"/crcr/{repo}.json?group=workflow")
            cells = [cell["jobs"] for commit in grouped["commits"] for cell in commit["jobs"].values()]
            assert max(cells) == (7 if repo == seeded.backend else 1), repo


def routes_of(app: Any) -> list[Any]:
    found, todo = [], list(app.routes)
    while todo:
        route = todo.pop()
        todo += getattr(getattr(route, "original_router", None), "routes", [])
        if getattr(route, "path", None):
            found.append(route)
    return found


def test_every_address_that_ends_like_a_twin_is_described(client: Any) -> None:
    paths = {route.path for route in routes_of(client.app) if route.path.endswith(".json")}
    assert paths - {"/openapi.json"} == set(TWINS) | set(OTHERS)


def is_html(response: Any) -> bool:
    kind = response.value if isinstance(response, DefaultPlaceholder) else response
    return issubclass(kind, HTMLResponse)


def test_every_page_has_a_twin(client: Any) -> None:
    pages = {
        route.path for route in routes_of(client.app) if isinstance(route, PageRoute) and is_html(route.response_class)
    }
    assert len(pages) >= 16
    assert [path for path in sorted(pages) if f"{'/index' if path == '/' else path}.json" not in TWINS] == []


@pytest.mark.parametrize("path", TWINS)
def test_openapi_has_the_twin_with_a_schema_and_an_example_that_holds(client: Any, path: str) -> None:
    found = client.get("/openapi.json").json()
    told = found["paths"][path.replace(":path", "")]["get"]
    answer = told["responses"]["200"]["content"]["application/json"]
    name = answer["schema"]["$ref"].rpartition("/")[2]
    assert found["components"]["schemas"][name]["properties"]
    assert told["summary"]
    TWINS[path].model_validate(answer["example"])
    told = {**answer["schema"], "components": found["components"]}  # and as somebody reads it who has this file alone
    Draft202012Validator(told).validate(answer["example"])
    assert answer["example"] == examples()[path]


def test_openapi_is_a_valid_document(client: Any) -> None:
    found = client.get("/openapi.json").json()
    schemathesis.openapi.from_dict(found).validate()
    found["paths"]["/index.json"]["get"]["responses"] = "none"
    with pytest.raises(ValidationError):
        schemathesis.openapi.from_dict(found).validate()
