"""The table of CI providers in force, and the issuers whose tokens are taken."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine

from relay.domain.providers import BUILT_IN, GITHUB, Provider, Providers, parse
from relay.errors import ProvidersError, SettingsError
from relay.services.documents import Document
from relay.settings import Issuer, Settings

DOCUMENT: Document[Providers] = Document("providers", parse, ProvidersError)


def current(engine: Engine, settings: Settings, now: float) -> Providers:
    """The table in force; the built-in rows alone where none is set. ProvidersError when the one that is set was never
    good."""
    return DOCUMENT.current(engine, settings, now) if settings.providers else BUILT_IN


def issuers(settings: Settings, table: Providers) -> dict[str, Provider]:
    """Issuer -> what its tokens mean: those of the settings, and those that the table brings. SettingsError for one
    whose provider is none."""
    found: dict[str, Provider] = {}
    for row in table.rows.values():
        known = BUILT_IN.get(row.name)
        if row.issuer and (known is None or row.issuer != known.issuer or row.pipelines):
            found[row.issuer] = row
    for issuer in settings.oidc_issuers:
        found[issuer.issuer] = _row(issuer, settings, table)
    return found


def _row(issuer: Issuer, settings: Settings, table: Providers) -> Provider:
    row = table.get(issuer.provider)
    if row is None:
        known = ", ".join(sorted(table.rows))
        raise SettingsError(f"oidc_issuers: {issuer.issuer}: no provider {issuer.provider!r}", f"known: {known}")
    changes: dict[str, str] = {}
    if row.page == GITHUB.page:
        changes["page"] = f"{settings.github_url}/{{repository}}/"
    if issuer.jwks_url:
        changes["keys"] = issuer.jwks_url
    if issuer.repository_claim:
        changes["repository"] = issuer.repository_claim
    return replace(row, issuer=issuer.issuer, **changes)  # type: ignore[arg-type]
