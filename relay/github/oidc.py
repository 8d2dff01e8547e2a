"""Verifies the OIDC tokens by which downstreams prove who they are. See docs/callback.md.

Keys are cached per issuer, refreshed at most once a minute whatever tokens arrive, kept when the issuer is down, and
never replaced by an empty set. Everything about a token that needs no key is checked before any request is made.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import jwt
import structlog

from relay.errors import Unauthorized, Unavailable
from relay.settings import Issuer

log = structlog.get_logger(__name__)

LEEWAY_S = 60
REFRESH_S = 60.0
"""Unknown key ids cause at most one request a minute."""
FIRST_RETRY_S = 5.0
"""While an issuer never answered, nobody can be verified: then we ask more often."""
MAX_AGE_S = 3600.0
MAX_TOKEN = 16_384
MAX_KEYS_BYTES = 512 * 1024
MAX_TOKEN_ID = 200

HINT = "ask the CI provider for an OIDC token with this relay's audience"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who reports: ``repository`` is owner/name as the token spells it, ``token_id`` names the token (issuer and jti),
    ``expires_at`` is when it can no longer be used here (seconds since the epoch, leeway included)."""

    issuer: str
    repository: str
    token_id: str
    expires_at: float
    claims: dict[str, Any]


@dataclass
class _Keys:
    issuer: Issuer
    lock: threading.Lock = field(default_factory=threading.Lock)
    by_id: dict[str, Any] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")


def fetch(url: str) -> Any:
    """The JSON of a key set. Raises httpx2.HTTPError, ValueError."""
    with httpx2.stream("GET", url, timeout=httpx2.Timeout(3.0), follow_redirects=False) as response:
        response.raise_for_status()
        raw = b""
        for part in response.iter_bytes():
            raw += part
            if len(raw) > MAX_KEYS_BYTES:
                raise ValueError(f"{url}: more than {MAX_KEYS_BYTES} bytes of keys")
    return httpx2.Response(200, content=raw).json()


class Verifier:
    """Verifies tokens of ``issuers`` for ``audience``. Blocking and safe for threads: call it off the event loop.

    ``get`` fetches a key set, ``clock`` gives seconds since the epoch.
    """

    def __init__(
        self,
        issuers: Iterable[Issuer],
        audience: str,
        *,
        get: Callable[[str], Any] = fetch,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {issuer.issuer: _Keys(issuer) for issuer in issuers}
        self._audience = audience
        self._get = get
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """Raises Unauthorized (the token is not good), Unavailable (its issuer's keys cannot be had now)."""
        keys, kid = self._look(token)
        key = self._key(keys, kid)
        now = self._clock()
        try:
            # the times are checked below, with our clock
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audience,
                issuer=keys.issuer.issuer,
                options={
                    "require": ["exp", "iat", "iss", "aud"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.InvalidAudienceError as exc:
            raise Unauthorized(f"the token is not meant for {self._audience}", HINT) from exc
        except jwt.PyJWTError as exc:
            raise Unauthorized(f"the token is not valid: {exc}", HINT) from exc
        expires = _time(claims, "exp")
        if expires + LEEWAY_S <= now:
            raise Unauthorized("the token has expired", "ask for a new token and report again")
        for name in ("iat", "nbf"):
            if name in claims and _time(claims, name) - LEEWAY_S > now:
                raise Unauthorized(f"the token is not valid yet ({name})", "check the clock of the machine")
        repository = claims.get(keys.issuer.repository_claim)
        if not isinstance(repository, str) or repository.count("/") != 1 or len(repository) > 255:
            raise Unauthorized(f"the token's claim {keys.issuer.repository_claim} names no repository", HINT)
        return Identity(keys.issuer.issuer, repository, _token_id(token, claims), expires + LEEWAY_S, claims)

    def _look(self, token: str) -> tuple[_Keys, str]:
        """The issuer and key id a token claims, before anything is believed. Makes no request."""
        if len(token) > MAX_TOKEN:
            raise Unauthorized(f"the token is longer than {MAX_TOKEN} characters", HINT)
        try:
            header = jwt.get_unverified_header(token)
            claimed = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError) as exc:
            raise Unauthorized("the token is not a JWT", HINT) from exc
        if header.get("alg") != "RS256":
            raise Unauthorized(f"the token is signed with {str(header.get('alg'))[:20]}; only RS256 is taken", HINT)
        kid = header.get("kid")
        if not isinstance(kid, str) or not kid:
            raise Unauthorized("the token names no key (kid)", HINT)
        issuer = claimed.get("iss")
        keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise Unauthorized(f"the token's issuer is not known here: {str(issuer)[:100]}", HINT)
        return keys, kid

    def _key(self, keys: _Keys, kid: str) -> Any:
        with keys.lock:  # single flight: a flood of tokens waits for one answer
            now = self._clock()
            wait = REFRESH_S if keys.by_id else FIRST_RETRY_S
            stale = kid not in keys.by_id or now - keys.fetched_at > MAX_AGE_S
            if stale and now - keys.tried_at >= wait:
                self._refresh(keys, now)
            if not keys.by_id:
                raise Unavailable(
                    f"the keys of {keys.issuer.issuer} cannot be fetched",
                    "report again later",
                    retry_after=FIRST_RETRY_S,
                )
            if kid not in keys.by_id:
                raise Unauthorized(f"{keys.issuer.issuer} has no such key: {kid[:100]}", HINT)
            return keys.by_id[kid]

    def _refresh(self, keys: _Keys, now: float) -> None:
        keys.tried_at = now
        try:
            found = _rsa_keys(self._get(keys.issuer.keys_url))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as exc:
            log.warning("issuer keys not refreshed", issuer=keys.issuer.issuer, error=str(exc), kept=len(keys.by_id))
            return
        keys.by_id = found
        keys.fetched_at = now


def _rsa_keys(value: Any) -> dict[str, Any]:
    """Key id -> public key, of the RSA signing keys. Raises ValueError when there is none."""
    found: dict[str, Any] = {}
    listed = value.get("keys") if isinstance(value, dict) else None
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict) or entry.get("kty") != "RSA" or entry.get("use", "sig") != "sig":
            continue
        kid = entry.get("kid")
        if not isinstance(kid, str):
            continue
        try:
            found[kid] = jwt.PyJWK(entry, algorithm="RS256").key
        except jwt.PyJWTError as exc:
            log.warning("issuer key not usable", kid=kid, error=str(exc))
    if not found:
        raise ValueError("no RSA signing key in the key set")
    return found


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e12:
        raise Unauthorized(f"the token's claim {name} is not a time", HINT)
    return float(value)


def _token_id(token: str, claims: dict[str, Any]) -> str:
    # an issuer without jti (Buildkite): then the token itself is its name
    jti = claims.get("jti")
    name = jti if isinstance(jti, str) and jti else f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    whole = f"{claims['iss']}#{name}"
    if len(whole) > MAX_TOKEN_ID or not whole.isprintable():
        whole = f"sha256:{hashlib.sha256(whole.encode('utf-8', 'replace')).hexdigest()}"
    return whole
