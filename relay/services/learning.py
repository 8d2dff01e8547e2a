"""What the relay's own history teaches a ranker: of changes that broke something, which planned tests they broke.

The history of a change is its author's. So the relay's rules of trust decide whose counts: the author is one whom the
downstream trusts, the change is against a branch of trunk, and it ran under the device's own configs. Anybody else
could make tests look as if nothing ever broke them. A change counts once, with its newest run that broke something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row

from relay.store import judged
from relay.store.db import reading
from selector.model import TestId
from selector.plan.learning import LEAST, Example, TooLittle, of_change
from selector.plan.ranking import Ranked, ranked_of

UNSURE = ("unconfirmed", "conflict", "infrastructure")
"""kinds of failures of which nobody knows whether the change caused them"""
LEFT_OUT = {
    "untrusted": "of authors who are not trusted",
    "elsewhere": "not against trunk, or under configs that were not merged",
    "quiet": "broke nothing",
    "beside": "broke nothing that a ranker orders",
    "again": "a change that counts already",
    "forgotten": "whose plans are no longer kept, or were made before what rankers saw was written down",
}
"""Why a run with a verdict teaches nothing."""


@dataclass(frozen=True, slots=True)
class Taught:
    """``ended``: when each change's run ended (epoch); ``left_out``: runs by a word of LEFT_OUT."""

    examples: tuple[Example, ...]
    ended: dict[str, float]
    left_out: Counter[str]

    def told(self) -> str:
        """All runs with a verdict, and what became of them."""
        count = len(self.ended) + self.left_out.total()
        parts = [f"{self.left_out[word]} {words}" for word, words in LEFT_OUT.items() if self.left_out[word]]
        return f"{count} runs with a verdict" + (": " + ", ".join(parts) if parts else "")


def history(engine: Engine, device: str, least: int = LEAST) -> Taught:
    """The examples of a device. Raises TooLittle, which says how many changes there are and why others do not count."""
    examples: list[Example] = []
    ended: dict[str, float] = {}
    left_out: Counter[str] = Counter()
    with reading(engine) as conn:
        for row in judged.runs(conn, device):
            change = f"{row.upstream}#{row.pr_number}" if row.pr_number is not None else row.head_sha
            broken = _of_kind(row, ("regression",))
            why = _refused(row, broken) or ("again" if change in ended else "")
            if why:
                left_out[why] += 1
                continue
            codes, seen = judged.planned(conn, row.id)
            if seen is None:
                left_out["forgotten"] += 1
                continue
            found = of_change(
                change, _ranked(codes, seen), judged.executed(conn, row.id), broken, _of_kind(row, UNSURE)
            )
            if not found:
                left_out["beside"] += 1
                continue
            examples += found
            ended[change] = row.closed_at
    taught = Taught(tuple(examples), ended, left_out)
    if len(ended) < least:
        raise TooLittle(
            f"{device}: {len(ended)} changes of trusted authors broke a test that a ranker orders; {taught.told()}",
            f"{least} are needed; plans are kept for keep_details_days; --from replay learns from faults instead",
        )
    return taught


def _refused(row: Row[Any], broken: frozenset[TestId]) -> str:
    if not row.author_trusted:
        return "untrusted"
    if not row.on_trunk:
        return "elsewhere"
    return "" if broken else "quiet"


def _ranked(codes: Mapping[str, tuple[str, ...]], seen: Mapping[str, Any]) -> dict[TestId, Ranked]:
    found = {}
    for name, values in seen["rows"].items():
        test = TestId.parse(name)
        found[test] = ranked_of(test, codes[name], dict(zip(seen["columns"], values, strict=True)))
    return found


def _of_kind(row: Row[Any], kinds: tuple[str, ...]) -> frozenset[TestId]:
    return frozenset(TestId.parse(cause["test"]) for cause in row.verdict["causes"] if cause["kind"] in kinds)
