"""The bodies of ``relay config …`` and ``relay allowlist …``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from relay.domain.allowlist import parse
from relay.errors import SettingsError
from relay.services.device_configs import CAPABILITY
from selector.configs import ConfigSource, lint
from selector.configs.capability import load_capability


def lint_files(paths: Sequence[Path], *, compat: bool = False, console: Console | None = None) -> int:
    """Prints every problem of the given files. 0 when there is no error, 1 otherwise."""
    console = console or Console(soft_wrap=True, highlight=False)
    sources = [ConfigSource(str(path), _read(path)) for path in _yaml_files(paths)]
    for source in sources:
        if Path(source.name).name == CAPABILITY:
            load_capability(source.text, source.name)
    problems = lint(sources, compat=compat, today=datetime.now(UTC).date())
    for problem in problems:
        console.print(str(problem), markup=False)
    errors = sum(p.level == "error" for p in problems)
    console.print(f"{len(sources)} configs, {errors} errors, {len(problems) - errors} warnings")
    return 1 if errors else 0


def lint_allowlist(path: Path, *, console: Console | None = None) -> int:
    """Prints who gets what. Raises AllowlistError at the first place that cannot be used."""
    console = console or Console(highlight=False)
    allowlist = parse(_read(path), str(path))
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
    return 0


def _yaml_files(paths: Sequence[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml"))
        else:
            yield path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "give a readable YAML file") from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path}: not UTF-8: {exc}", "save the file as UTF-8") from exc
