"""The bodies of ``relay config …`` and ``relay allowlist …``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from relay.cli.terminal import Terminal
from relay.domain.allowlist import parse
from relay.domain.words import plural
from relay.errors import SettingsError
from relay.services.device_configs import CAPABILITY
from selector.configs import ConfigProblem, ConfigSource, lint
from selector.configs.capability import load_capability
from selector.configs.upstream import Upstream, issues_from
from selector.discover import take
from selector.discover.inventory import is_inventoried
from selector.opdb import from_json
from selector.trees import DirTree


@dataclass(frozen=True, slots=True)
class Against:
    """What configs are checked against, beside themselves: paths given on the command line."""

    upstream: Path | None = None
    was: Path | None = None
    opdb: Path | None = None
    issues: Path | None = None

    def read(self) -> tuple[Upstream | None, dict[str, str]]:
        """(upstream, issue -> state). Raises SettingsError, TreeError, OpDatabaseError."""
        states = {}
        if self.issues is not None:
            try:
                states = issues_from(json.loads(read_text(self.issues)))
            except ValueError as exc:
                raise SettingsError(f"{self.issues}: not JSON: {exc}", '{"owner/repo#12": "closed"}') from exc
        if self.upstream is None:
            if self.was is not None or self.opdb is not None:
                raise SettingsError("--was and --opdb go with --upstream", "give upstream's root too")
            return None, states
        tree = DirTree(self.upstream, only=is_inventoried)
        now = take(tree)
        was = take(DirTree(self.was, only=is_inventoried), known=now) if self.was is not None else None
        opdb = from_json(read_text(self.opdb)) if self.opdb is not None else None
        version = self.upstream / "version.txt"
        return Upstream(now, was, opdb, read_text(version).strip() if version.is_file() else "", tree.read), states


def lint_files(
    paths: Sequence[Path],
    *,
    compat: bool = False,
    against: Against | None = None,
    table: bool = False,
    console: Console | None = None,
) -> int:
    """Prints every problem of the given files. 0 when there is no error, 1 otherwise."""
    console = console or Terminal(soft_wrap=True)
    sources = [ConfigSource(str(path), read_text(path)) for path in yaml_files(paths)]
    for source in sources:
        if Path(source.name).name == CAPABILITY:
            load_capability(source.text, source.name)
    upstream, issues = (against or Against()).read()
    problems = lint(sources, compat=compat, today=datetime.now(UTC).date(), upstream=upstream, issues=issues)
    if table:
        console.print(_table(sources, problems))
    else:
        for problem in problems:
            console.print(str(problem))
    errors = sum(p.level == "error" for p in problems)
    found = plural(errors, "error"), plural(len(problems) - errors, "warning")
    console.print(", ".join((plural(len(sources), "config"), *found)))
    return 1 if errors else 0


def _table(sources: Sequence[ConfigSource], problems: Sequence[ConfigProblem]) -> Table:
    """A row a file, a column a kind of problem."""
    kinds = sorted({p.code for p in problems})
    table = Table(Column("config", overflow="fold"), *(code.removeprefix("config-") for code in kinds), "all")
    for source in sources:
        mine = Counter(p.code for p in problems if p.source == source.name)
        table.add_row(source.name, *(str(mine[code] or "") for code in kinds), str(mine.total() or ""))
    total = Counter(p.code for p in problems)
    table.add_section()
    table.add_row("all", *(str(total[code]) for code in kinds), str(total.total()))
    return table


def lint_allowlist(path: Path, *, console: Console | None = None) -> int:
    """Prints who gets what. Raises AllowlistError at the first place that cannot be used."""
    console = console or Terminal()
    allowlist = parse(read_text(path), str(path))
    table = Table("level", Column("repository", overflow="fold"), "executor", "device", "events", "oncalls")
    for entry in allowlist.entries:
        table.add_row(
            entry.level,
            entry.repo,
            entry.executor,
            entry.device or "",
            ", ".join(sorted(entry.events)),
            ", ".join(entry.oncalls),
        )
    console.print(table)
    for warning in allowlist.warnings:
        console.print(f"warning: {warning}")
    return 0


def yaml_files(paths: Sequence[Path]) -> Iterable[Path]:
    """The given files, and the YAML files of the given folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml"))
        else:
            yield path


def read_text(path: Path) -> str:
    """A file's text. Raises SettingsError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "give a readable YAML file") from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path}: not UTF-8: {exc}", "save the file as UTF-8") from exc
