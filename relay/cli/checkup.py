"""What is wrong with a relay, seen from where its processes run: settings, documents, database, broker, GitHub App."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx2
from sqlalchemy.exc import SQLAlchemyError

from relay.domain.app_manifest import EVENTS, beyond, lacking
from relay.errors import RelayError, SettingsError
from relay.github.app import App, NotSent
from relay.github.http import make_http
from relay.queue import engines
from relay.services import allowlists, providers, readiness
from relay.services.device_configs import load_device
from relay.services.secret_files import one_of, worker_keys
from relay.settings import Settings, load
from relay.store.db import open_engine
from relay.up import check_secrets
from relay.worker.doctor import Finding
from selector.errors import SelectorError

SKEW_S = 30.0
"""GitHub refuses an App's token that is a minute off."""


def report(config: str | None) -> list[Finding]:
    """Looks at the relay of these settings; takes some seconds, changes nothing."""
    try:
        settings = load(config)
    except SettingsError as exc:
        return [Finding("error", exc.message, exc.hint)]
    found = [Finding("ok", f"settings: {config or os.environ.get('RELAY_CONFIG') or 'environment'}")]
    for look in (_secrets, _documents, _database, _broker, _workers, _app):
        found += look(settings)
    return found


def _secrets(settings: Settings) -> Iterator[Finding]:
    try:
        check_secrets(settings)
    except SettingsError as exc:
        yield Finding("error", exc.message, exc.hint)


def _documents(settings: Settings) -> Iterator[Finding]:
    for document in (allowlists.DOCUMENT, providers.DOCUMENT):
        if document.place(settings) is not None:
            yield Finding("ok", f"{document.kind}: {document.source(settings)}, fetched from GitHub by the pump")
            continue
        if not document.source(settings) and document is not allowlists.DOCUMENT:
            continue
        try:
            document.read(settings)
            yield Finding("ok", f"{document.kind}: {document.source(settings)}")
        except (RelayError, SelectorError) as exc:
            yield Finding("error", f"{document.kind}: {exc.message}", exc.hint)
    try:
        load_device(settings.configs_dir)
        yield Finding("ok", f"device {settings.device}: {settings.configs_dir}")
    except (RelayError, SelectorError) as exc:
        yield Finding("error", f"device {settings.device}: {exc.message}", exc.hint)


def _database(settings: Settings) -> Iterator[Finding]:
    try:
        engine = open_engine(settings.database)
    except SettingsError as exc:
        yield Finding("error", exc.message, exc.hint)
        return
    try:
        for part in readiness.parts(engine, settings, time.time()):
            if part.problem is None:
                yield Finding("ok", f"{part.name}: {part.value}")
            else:
                yield Finding("error" if part.needed else "warning", f"{part.name}: {part.problem}", part.hint)
    except SQLAlchemyError as exc:
        yield Finding("error", f"database: {type(exc).__name__}: {exc}"[:300], "see database_url")
    finally:
        engine.dispose()


def _broker(settings: Settings) -> Iterator[Finding]:
    if not settings.broker_url:
        yield Finding("ok", "broker: none is set; `relay up` starts an embedded one")
        return
    try:
        engines.ping(settings.broker_url)
        yield Finding("ok", f"broker: {engines.kind_of(settings.broker_url)} answers")
    except (ValueError, *engines.ERRORS) as exc:
        yield Finding("error", f"broker: it does not answer: {exc}", "see broker_url; docs/runbooks.md")


def _workers(settings: Settings) -> Iterator[Finding]:
    if not worker_keys(settings):
        yield Finding(
            "warning", "no worker_key is set: workers elsewhere cannot enrol", "`relay up` makes one for its own"
        )


def _app(settings: Settings) -> Iterator[Finding]:
    key = one_of(settings, "github_private_key")
    if not settings.github_app_id or not key:
        name = "github_app_id" if not settings.github_app_id else "github_private_key"
        yield Finding("error", f"{name} is not set: nothing can be told to GitHub", "`relay app create` makes the App")
        return
    http = make_http(settings.github_api_url)
    app = App(settings.github_api_url, settings.github_app_id, key, http=http)
    try:
        headers = {"Authorization": f"Bearer {app.app_token()}", "Accept": "application/vnd.github+json"}
        answer = http.get(f"{settings.github_api_url}/app", headers=headers)
        yield from _clock(answer)
        if answer.status_code != 200:
            hint = "github_app_id and github_private_key belong together; a key can be made anew on the App's page"
            yield Finding("error", f"GitHub App: {settings.github_api_url} answers {answer.status_code}", hint)
            return
        body = answer.json()
        yield Finding("ok", f"GitHub App: {body.get('slug')}, id {settings.github_app_id}")
        yield from _rights("the App", body)
        rows = http.get(f"{settings.github_api_url}/app/installations?per_page=100", headers=headers).json()
        if not rows:
            yield Finding("warning", "the App is installed nowhere", "install it at upstream and the downstreams")
        for row in rows:
            name = f"its installation at {row['account']['login']}"
            if row.get("suspended_at"):
                yield Finding("warning", f"{name} is suspended", "its owner can lift that")
            yield from _rights(name, row)
    except NotSent as exc:
        yield Finding("error", f"GitHub App: {exc.reply.detail}", "docs/settings.md: github_app_id, github_private_key")
    except (httpx2.HTTPError, ValueError) as exc:
        yield Finding(
            "error", f"GitHub: {settings.github_api_url} does not answer: {exc}", "see github_api_url, proxies"
        )
    finally:
        http.close()


def _rights(whose: str, body: dict[str, object]) -> Iterator[Finding]:
    granted, events = body.get("permissions"), body.get("events")
    if isinstance(granted, dict):
        if missing := lacking(granted):
            hint = "change them on the App's page; the owner of each installation must accept them"
            yield Finding("error", f"{whose} lacks {', '.join(missing)}", hint)
        if more := beyond(granted):
            yield Finding("warning", f"{whose} may do more than it needs: {', '.join(more)}", "take it away")
    if isinstance(events, list) and (deaf := sorted(set(EVENTS) - set(events))):
        yield Finding("warning", f"{whose} is not told of {', '.join(deaf)}", "subscribe to them on the App's page")


def _clock(answer: httpx2.Response) -> Iterator[Finding]:
    try:
        theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return
    if (off := abs(time.time() - theirs)) > SKEW_S:
        yield Finding("error", f"the clock is {off:.0f} s off GitHub's", "set it (chrony, systemd-timesyncd)")
