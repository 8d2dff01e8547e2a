"""Errors of the relay: a stable code, a message about what happened to what, a hint about what to do.

Over HTTP they become problem+json (RFC 9457); on a terminal one sentence, the hint, and exit code 2. Codes are listed
in docs/errors.md; a test keeps the two in step.
"""

from __future__ import annotations


def fault(exc: Exception) -> str:
    """A fault of ours in words for everybody: its kind alone, the log has the rest."""
    return f"{type(exc).__name__}, the relay's log says where"


class RelayError(Exception):
    """Root of the relay's errors. ``status`` is the HTTP status it is answered with."""

    code = "relay-error"
    status = 500

    def __init__(self, message: str, hint: str = "", **extra: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class BadRequest(RelayError):
    """The body or a header cannot be understood."""

    code = "bad-request"
    status = 400


class SignatureMissing(RelayError):
    """A webhook without ``X-Hub-Signature-256``."""

    code = "signature-missing"
    status = 400


class SignatureInvalid(RelayError):
    """A webhook whose signature fits none of the configured secrets."""

    code = "signature-invalid"
    status = 401


class BodyTooLarge(RelayError):
    """A body over the limit of its route."""

    code = "body-too-large"
    status = 413


class Unauthorized(RelayError):
    """A token that is missing, malformed, expired or not meant for this."""

    code = "unauthorized"
    status = 401


class Forbidden(RelayError):
    """A good token of somebody who may not do this."""

    code = "forbidden"
    status = 403


class NotFound(RelayError):
    """There is no such thing."""

    code = "not-found"
    status = 404


class Conflict(RelayError):
    """The thing is in a state in which this cannot be done."""

    code = "conflict"
    status = 409


class TokenReplayed(Conflict):
    """A callback token that was used before, with another body."""

    code = "token-replayed"


class RepositoryUnknown(Forbidden):
    """A good token of a repository that is on no allowlist."""

    code = "repository-unknown"


class DispatchUnknown(NotFound):
    """A report on an event that was never sent to this repository."""

    code = "dispatch-unknown"


class CommitUnknown(RelayError):
    """A self-report about a commit that upstream does not have on any branch that counts."""

    code = "commit-unknown"
    status = 422


class LeaseLost(RelayError):
    """The lease ran out or was given to another worker: stop, and throw away what is not yet sent."""

    code = "lease-lost"
    status = 410


class RateLimited(RelayError):
    """Too many requests; ``retry_after`` (seconds) is in the answer's Retry-After."""

    code = "rate-limited"
    status = 429


class Unavailable(RelayError):
    """Something we depend on does not answer; try again after Retry-After."""

    code = "unavailable"
    status = 503


class SettingsError(RelayError):
    """A setting, file or environment that keeps a process from starting."""

    code = "settings-invalid"


class DocumentError(RelayError):
    """A document we are steered by that cannot be used, with the place (1-based line and column) where it goes
    wrong."""

    code = "document-invalid"

    def __init__(self, source: str, line: int, column: int, problem: str, hint: str = "") -> None:
        super().__init__(f"{source}:{line}:{column}: {problem}", hint)
        self.source = source
        self.line = line
        self.column = column
        self.problem = problem


class AllowlistError(DocumentError):
    """An allowlist that cannot be used."""

    code = "allowlist-invalid"


class ProvidersError(DocumentError):
    """A table of CI providers that cannot be used."""

    code = "providers-invalid"


class UpstreamGone(RelayError):
    """A commit or repository of upstream that cannot be fetched."""

    code = "upstream-unavailable"
