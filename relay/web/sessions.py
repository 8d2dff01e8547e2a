"""Sessions in cookies: a random token, signed, whose digest the database has. Also what is kept in the browser between
leaving for GitHub and coming back, and the one sentence that a page says after something was done."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

from fastapi import Request, Response
from itsdangerous import BadData, URLSafeTimedSerializer

from relay.settings import Settings

SIGN_IN_S = 600
"""Seconds that somebody may take at GitHub."""
SAID_S = 60


def new_token() -> str:
    return secrets.token_urlsafe(32)


def csrf_of(settings: Settings, token: str) -> str:
    """What forms of the session ``token`` must bring."""
    return hmac.new(_key(settings, "csrf"), token.encode(), hashlib.sha256).hexdigest()


def token_of(request: Request) -> str | None:
    """The token of the session's cookie; None where there is none, or not one of ours."""
    value = _read(request, "session", None)
    return value if isinstance(value, str) else None


def give_token(response: Response, settings: Settings, token: str) -> None:
    _write(response, settings, "session", token, int(settings.session_hours * 3600))


def take_token(response: Response, settings: Settings) -> None:
    _delete(response, settings, "session")


def keep(response: Response, settings: Settings, value: dict[str, str]) -> None:
    """What has to be known when the browser comes back from GitHub."""
    _write(response, settings, "sign-in", value, SIGN_IN_S)


def kept(request: Request) -> dict[str, str] | None:
    value = _read(request, "sign-in", SIGN_IN_S)
    return value if isinstance(value, dict) else None


def forget_kept(response: Response, settings: Settings) -> None:
    _delete(response, settings, "sign-in")


def say(response: Response, settings: Settings, sentence: str, *, bad: bool = False) -> None:
    """The next page says it, once."""
    _write(response, settings, "said", [sentence[:1000], bad], SAID_S)


def said(request: Request) -> tuple[str, bool] | None:
    """(sentence, whether it is bad news) of ``say``; the answer to this request takes the cookie away."""
    value = _read(request, "said", SAID_S)
    if value is None:
        return None
    gone = Response()
    _delete(gone, request.app.state.settings, "said")
    request.scope["relay_said"] = gone.headers["set-cookie"]
    return str(value[0]), bool(value[1])


def secure(settings: Settings) -> bool:
    return settings.url.startswith("https://")


def cookie_name(settings: Settings, what: str) -> str:
    """On https a browser takes ``__Host-`` cookies from this very host alone."""
    return f"{'__Host-' if secure(settings) else ''}relay-{what}"


def _key(settings: Settings, purpose: str) -> bytes:
    secret = settings.oauth_client_secret.get_secret_value()
    return hmac.new(secret.encode(), f"crcr-relay {purpose}".encode(), hashlib.sha256).digest()


def _signer(settings: Settings, what: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(
        _key(settings, what), salt=what, signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"}
    )


def _read(request: Request, what: str, max_age: int | None) -> Any:
    settings: Settings = request.app.state.settings
    value = request.cookies.get(cookie_name(settings, what))
    if not value or not settings.signing_in:
        return None
    try:
        return _signer(settings, what).loads(value, max_age=max_age)
    except BadData:
        return None


def _write(response: Response, settings: Settings, what: str, value: Any, max_age: int) -> None:
    signed = _signer(settings, what).dumps(value)
    assert isinstance(signed, str)
    response.set_cookie(
        cookie_name(settings, what),
        signed,
        max_age=max_age,
        path="/",
        secure=secure(settings),
        httponly=True,
        samesite="lax",
    )


def _delete(response: Response, settings: Settings, what: str) -> None:
    response.delete_cookie(
        cookie_name(settings, what), path="/", secure=secure(settings), httponly=True, samesite="lax"
    )
