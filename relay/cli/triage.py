"""The body of ``relay triage eval``: triage measured against the decisions that people wrote into reuse configs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relay.cli.terminal import Terminal
from relay.errors import SettingsError
from selector.configs import ConfigSource, load_capability
from selector.discover import DirectoryCache, take
from selector.discover.inventory import is_inventoried
from selector.opdb import from_json
from selector.trees import DirTree
from selector.triage.decisions import read_decisions
from selector.triage.engagement import Uses
from selector.triage.evaluation import Figures, Measured, Row, evaluate
from selector.triage.evidence import engagements, read_evidence
from selector.triage.exclusions import CODES

WIDTH = 130
"""columns of a table that goes into a file or a pipe"""


def run(
    configs: Path,
    upstream: Path,
    sheet: Path,
    opdb: Path | None,
    evidence: Sequence[Path],
    cache: Path | None,
    *,
    as_json: bool,
    console: Console | None = None,
) -> int:
    """Measures and prints. Always 0: whether a figure is good enough is for the reader. SettingsError, ConfigError,
    EvidenceError, TreeError for what cannot be used."""
    measured = measure(configs, upstream, sheet, opdb, evidence, cache)
    out = console if console is not None else Terminal(soft_wrap=True)
    if not out.is_terminal:
        out.width = WIDTH
    if as_json:
        out.file.write(json.dumps(to_value(measured), indent=1) + "\n")
    else:
        _print(measured, out)
    return 0


def measure(
    configs: Path, upstream: Path, sheet: Path, opdb: Path | None, evidence: Sequence[Path], cache: Path | None
) -> Measured:
    """The measurement, from files. Nothing is written but to ``cache``."""
    tree = DirTree(upstream, only=is_inventoried)
    kept = DirectoryCache(cache) if cache is not None else None
    inventory = take(tree, kept)
    decisions = read_decisions(_sources(configs), inventory)
    if not any(decided.tests for decided in decisions):
        raise SettingsError(
            f"no name in {configs} is a test of {upstream}",
            "--configs is a folder of reuse configs, --upstream the root",
        )
    rows = [row for path in evidence for row in read_evidence(_read(path), path.name)]
    return evaluate(
        decisions,
        inventory,
        load_capability(_read(sheet), sheet.name),
        Uses(tree.read, inventory.ids, kept),
        from_json(_read(opdb)) if opdb is not None else None,
        engagements(rows),
    )


def _sources(folder: Path) -> list[ConfigSource]:
    if not folder.is_dir():
        raise SettingsError(f"{folder} is not a folder", "--configs is a folder of reuse configs")
    paths = sorted(path for path in folder.rglob("*.yaml") if path.is_file())
    if not paths:
        raise SettingsError(f"{folder} has no *.yaml", "--configs is a folder of reuse configs")
    return [ConfigSource(path.relative_to(folder).as_posix(), _read(path)) for path in paths]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "give a file that can be read") from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path} is not UTF-8: {exc}", "save it as UTF-8") from exc


# ------------------------------------------------------------------------------------------------------------- output


def to_value(measured: Measured) -> dict[str, Any]:
    """The whole measurement as plain values; see docs/selection.md."""
    return {
        "names": measured.names,
        "absent_names": len(measured.absent),
        "rows": len(measured.rows),
        "asked": measured.asked,
        "with_evidence": measured.evidence,
        "overruled_by_kernels": measured.overruled,
        "raw": _values(measured.raw),
        "after_exclusions": _values(measured.counted),
        "raw_by_name": _value(measured.by_name),
        "categories": _values(measured.categories),
        "files": _values(measured.files),
        "exclusions": {
            code: {"meaning": CODES[code], "rows": rows, "disagreeing": against}
            for code, (rows, against) in measured.exclusions.items()
        },
        "disagreements": [_disagreement(row) for row in measured.rows if not row.agrees],
    }


def _values(groups: Mapping[str, Figures]) -> dict[str, Any]:
    return {name: _value(one) for name, one in groups.items()}


def _value(one: Figures) -> dict[str, Any]:
    shares = {
        "agreement": one.agreement,
        "precision": one.precision,
        "recall": one.recall,
        "drop_precision": one.drop_precision,
        "drop_recall": one.drop_recall,
    }
    return {
        "rows": one.rows,
        **asdict(one),
        **{name: None if share is None else round(share, 4) for name, share in shares.items()},
    }


def _disagreement(row: Row) -> dict[str, Any]:
    decided, said = row.decided, row.triaged
    return {
        "test": str(row.test),
        "part": decided.part,
        "decided": {
            "engages": decided.engages,
            "mode": decided.mode.value,
            "name": decided.name,
            "place": f"{decided.config}:{decided.line}",
            "comment": decided.comment,
        },
        "triage": {
            "verdict": said.verdict,
            "asked": row.asked,
            "code": said.code,
            "reason": said.reason,
            "category": row.category,
            "confidence": said.confidence,
            "evidence": [asdict(fact) for fact in said.evidence if fact.kind != "category"],
        },
        "excluded": None if row.excluded is None else asdict(row.excluded),
    }


def _print(measured: Measured, console: Console) -> None:
    absent = len(measured.absent)
    console.print(
        f"{measured.names} names, {absent} of them in no test of the tree; {len(measured.rows)} tests with a decision, "
        f"{measured.evidence} with evidence ({measured.overruled} dropped by rules against it); {measured.asked} asked"
    )
    for title, groups in (
        ("raw", measured.raw),
        ("after exclusions", measured.counted),
        ("category", measured.categories),
        ("upstream file", measured.files),
    ):
        console.print(_table(title, groups))
    table = Table("exclusion", "rows", "of them disagreeing")
    for code, (rows, against) in measured.exclusions.items():
        table.add_row(code, str(rows), str(against))
    console.print(table)
    for row in measured.rows:
        if not row.agrees:
            _print_row(row, console)


def _table(title: str, groups: Mapping[str, Figures]) -> Table:
    table = Table(title, "rows", "agreement", "precision", "recall", "drop precision", "drop recall")
    table.columns[0].no_wrap = True
    for name, one in groups.items():
        shares = (one.agreement, one.precision, one.recall, one.drop_precision, one.drop_recall)
        table.add_row(name, str(one.rows), *("-" if s is None else f"{100 * s:.1f} %" for s in shares))
    return table


def _print_row(row: Row, console: Console) -> None:
    decided = "engages" if row.decided.engages else "does not engage"
    place = f"{row.decided.config}:{row.decided.line}"
    console.print(f"{row.test}")
    console.print(f"  decided: {decided} ({row.decided.mode.value}, {place})")
    asked = ", asked" if row.asked else ""
    console.print(f"  triage:  {row.triaged.verdict}{asked} ({row.triaged.code}): {row.triaged.reason}")
    if row.excluded is not None:
        console.print(f"  excluded ({row.excluded.code}): {row.excluded.fact}")
