"""Errors of the selector. Each says what happened to what (``message``) and what to do about it (``hint``)."""

from __future__ import annotations


class SelectorError(Exception):
    """Root of the selector's errors; ``code`` is stable and listed in docs/errors.md."""

    code = "selector-error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(SelectorError):
    """A YAML file that cannot be used, with the place (1-based line and column) where it goes wrong."""

    code = "config-invalid"

    def __init__(self, source: str, line: int, column: int, problem: str, hint: str = "") -> None:
        super().__init__(f"{source}:{line}:{column}: {problem}", hint)
        self.source = source
        self.line = line
        self.column = column
        self.problem = problem


class TreeError(SelectorError):
    """A checkout that cannot be used as an upstream tree (no ``test`` folder, an unreadable file, ...)."""

    code = "tree-unusable"


class NoWorker(SelectorError):
    """There is no worker whose torch could run the tests, so nothing can be planned."""

    code = "no-worker"
