"""Is it true? A quote must stand where it is said to stand, in the text as it was shown."""

from __future__ import annotations

from selector.agents.desk import Desk
from selector.agents.sheets import Quote
from selector.model import Evidence
from selector.triage.subject import Subject


def quoted(quote: Quote, desk: Desk, kind: str, within: Subject | None = None) -> Evidence | None:
    """The place of a quote in the tree as evidence; None where the text is on no line of that file. Space at both ends
    and runs of it do not count. ``within``: the line must be part of what this test reaches."""
    wanted = " ".join(quote.text.split())
    if not wanted:
        return None
    for number, line in enumerate(desk.lines(quote.path) or (), 1):
        if wanted in " ".join(line.split()) and (within is None or _reaches(within, quote.path, number)):
            return Evidence(kind, wanted[:200], quote.path, number)
    return None


def in_log(quote: Quote, log: str, kind: str) -> Evidence | None:
    """The quote as evidence where it stands on a line of the log."""
    wanted = " ".join(quote.text.split())
    found = bool(wanted) and any(wanted in " ".join(line.split()) for line in log.splitlines())
    return Evidence(kind, wanted[:200]) if found else None


def _reaches(subject: Subject, path: str, line: int) -> bool:
    """By the innermost symbol that holds the line: the frame of a class spans all of its methods."""
    for at, keys in subject.inventory.reached(subject.id):
        symbols = subject.inventory.files[at].symbols.values() if at == path else ()
        around = [symbol for symbol in symbols if symbol.line <= line <= symbol.end]
        if around and min(around, key=lambda symbol: symbol.end - symbol.line).key in keys:
            return True
    return False
