"""Verifies the OIDC tokens by which downstreams prove who they are. See docs/callback.md.

Keys are cached per issuer, refreshed at most once a minute whatever tokens arrive, kept when the issuer is down, and
never replaced by an empty set. Everything about a token that needs no key is checked before any request is made.

A token's times are its issuer's. Where they do not fit our clock, the issuer is asked what time it is, before a report
is refused that nobody would send again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import jwt
import structlog

from relay.domain.fields import MAX_ID, is_repo
from relay.domain.providers import Provider
from relay.errors import Forbidden, RepositoryUnknown, Unauthorized, Unavailable
from relay.github.true_time import TrueTime, date_of

log = structlog.get_logger(__name__)

LEEWAY_S = 60
REFRESH_S = 60.0
"""Unknown key ids cause at most one request a minute."""
FIRST_RETRY_S = 5.0
"""While an issuer never answered, nobody can be verified: then we ask more often."""
MAX_AGE_S = 3600.0
HOUR_S = 10.0
"""Tokens whose times do not fit cause at most one question for the hour in so many seconds."""
MAX_TOKEN = 16_384
MAX_KEYS_BYTES = 512 * 1024
MAX_TOKEN_ID = 200

HINT = "ask the CI provider for an OIDC token with this relay's audience"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who reports: ``repository`` is owner/name as the token spells it, or as the table of providers maps it;
    ``repository_id`` GitHub's number of it, where the token says it; ``token_id`` names the token (issuer and jti),
    ``expires_at`` is when it can no longer be used here (seconds since the epoch, leeway included)."""

    provider: Provider
    repository: str
    repository_id: int | None
    token_id: str
    expires_at: float
    claims: dict[str, Any]


@dataclass
class _Keys:
    issuer: str
    url: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    by_id: dict[str, Any] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")
    time: TrueTime = field(default_factory=TrueTime)
    asked_at: float = float("-inf")


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


def hour(url: str) -> float | None:
    """What time it is there (seconds since the epoch), by the answer's ``Date``; None where it does not say. Raises
    httpx2.HTTPError."""
    with httpx2.stream("GET", url, timeout=httpx2.Timeout(3.0), follow_redirects=False) as response:
        response.raise_for_status()
        return date_of(response.headers.get("date"))


class Verifier:
    """Verifies tokens for ``audience``, of the ``issuers`` that there are at that moment. It blocks, so call it off the
    event loop, from any thread.

    ``get`` fetches a key set, ``hour`` asks an issuer for the time, ``clock`` gives seconds since the epoch.
    """

    def __init__(
        self,
        issuers: Callable[[], Mapping[str, Provider]],
        audience: str,
        *,
        get: Callable[[str], Any] = fetch,
        hour: Callable[[str], float | None] = hour,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = issuers
        self._keys: dict[tuple[str, str], _Keys] = {}
        self._audience = audience
        self._get = get
        self._hour = hour
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """Raises Unauthorized (the token is not good), RepositoryUnknown and Forbidden (it is good, and of a pipeline
        that speaks for nobody here), Unavailable (its issuer's keys cannot be had now)."""
        provider, keys, kid = self._look(token)
        key = self._key(keys, kid)
        try:
            # the times are checked below, by the issuer's clock
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audience,
                issuer=keys.issuer,
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
        ours = self._clock()
        now = ours
        try:
            _in_time(claims, now)
        except Unauthorized:
            now = self._time_at(keys, ours)
            _in_time(claims, now)
        # by our own clock, for what is kept until then
        expires = _time(claims, "exp") - (now - ours)
        repository = _repository(provider, claims)
        token_id = _token_id(token, claims)
        return Identity(provider, repository, _number(provider, claims), token_id, expires + LEEWAY_S, claims)

    def _look(self, token: str) -> tuple[Provider, _Keys, str]:
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
        provider = self._issuers().get(issuer) if isinstance(issuer, str) else None
        if provider is None:
            raise Unauthorized(f"the token's issuer is not known here: {str(issuer)[:100]}", HINT)
        place = (str(issuer), provider.keys_url(str(issuer)))
        return provider, self._keys.setdefault(place, _Keys(*place)), kid

    def _key(self, keys: _Keys, kid: str) -> Any:
        with keys.lock:  # single flight: a flood of tokens waits for one answer
            now = self._clock()
            wait = REFRESH_S if keys.by_id else FIRST_RETRY_S
            stale = kid not in keys.by_id or not 0 <= now - keys.fetched_at <= MAX_AGE_S
            if stale and not 0 <= now - keys.tried_at < wait:
                self._refresh(keys, now)
            if not keys.by_id:
                raise Unavailable(
                    f"the keys of {keys.issuer} cannot be fetched",
                    "report again later",
                    retry_after=FIRST_RETRY_S,
                )
            if kid not in keys.by_id:
                raise Unauthorized(f"{keys.issuer} has no such key: {kid[:100]}", HINT)
            return keys.by_id[kid]

    def _time_at(self, keys: _Keys, ours: float) -> float:
        """What time it is at the issuer; our own where it does not say."""
        with keys.lock:
            if time.monotonic() - keys.asked_at >= HOUR_S:
                keys.asked_at = time.monotonic()
                try:
                    keys.time.heard(self._hour(keys.url))
                except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
                    log.warning("issuer does not tell the time", issuer=keys.issuer, error=str(exc))
            return keys.time(ours)

    def _refresh(self, keys: _Keys, now: float) -> None:
        keys.tried_at = now
        try:
            found = _rsa_keys(self._get(keys.url))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as exc:
            log.warning("issuer keys not refreshed", issuer=keys.issuer, error=str(exc), kept=len(keys.by_id))
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


def _repository(provider: Provider, claims: dict[str, Any]) -> str:
    """Whom the token speaks for."""
    if provider.repository is not None:
        named = claims.get(provider.repository)
        if not isinstance(named, str) or not is_repo(named):
            raise Unauthorized(f"the token's claim {provider.repository} names no repository", HINT)
        return named
    key, pipeline = provider.pipeline_of(claims)
    if pipeline is None:
        raise RepositoryUnknown(
            f"the {provider.name} pipeline {key[:200]} speaks for no repository here",
            "ask for an entry in the table of providers: " + "/".join(provider.identity),
        )
    for claim, allowed in pipeline.required.items():
        if str(claims.get(claim)) not in allowed:
            raise Forbidden(
                f"the pipeline may report where {claim} is {' or '.join(allowed)}, and the token says "
                f"{str(claims.get(claim))[:100]}",
                "report from a build that the table of providers allows",
            )
    return pipeline.repo


def _number(provider: Provider, claims: dict[str, Any]) -> int | None:
    """GitHub's number of the repository. Unauthorized where the claim is none."""
    value = claims.get(provider.repository_id) if provider.repository_id is not None else None
    if value is None:
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= MAX_ID):
        raise Unauthorized(f"the token's claim {provider.repository_id} is no number of a repository", HINT)
    return int(text)


def _in_time(claims: dict[str, Any], now: float) -> None:
    """Unauthorized for a token that is over, or not good yet."""
    if _time(claims, "exp") + LEEWAY_S <= now:
        raise Unauthorized("the token has expired", "ask for a new token and report again")
    for name in ("iat", "nbf"):
        if name in claims and _time(claims, name) - LEEWAY_S > now:
            raise Unauthorized(f"the token is not valid yet ({name})", "check the clock of the machine")


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
