"""The bodies of ``relay config import``, ``fmt``, ``diff`` and ``schema``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text
from yaml import YAMLError

from relay.cli.config import read_text, yaml_files
from relay.cli.explain import dtype_word, op_word
from relay.cli.terminal import Terminal
from relay.domain.words import plural
from relay.errors import SettingsError
from relay.services.device_configs import CAPABILITY
from selector.configs import ConfigSource, load_capability, load_configs
from selector.configs.diff import Changed, Side, diff, named_tests
from selector.configs.importer import SHEET, import_configs
from selector.configs.jsonschema import json_schema
from selector.configs.propose import propose
from selector.configs.roundtrip import format_text, read
from selector.discover import take
from selector.discover.inventory import is_inventoried
from selector.opdb import from_json
from selector.trees import DirTree

SHOWN = 6


def run_import(paths: Sequence[Path], out: Path, *, force: bool = False, console: Console | None = None) -> int:
    """Writes the imported configs into the folder ``out``. 0; SettingsError when a file is there already."""
    console = console or Terminal(soft_wrap=True)
    sources: dict[str, ConfigSource] = {}
    for path in yaml_files(paths):
        if path.name in sources:
            raise SettingsError(f"two files are called {path.name}", "import them into two folders")
        sources[path.name] = ConfigSource(path.name, read_text(path))
    if SHEET in sources:
        raise SettingsError(f"{SHEET} is the name of the sheet that is written", "rename the config")
    found = import_configs(list(sources.values()))
    there = [source.name for source in found.files if (out / source.name).exists()]
    if there and not force:
        raise SettingsError(f"{out} already has {', '.join(there[:3])}", "--force writes over them")
    out.mkdir(parents=True, exist_ok=True)
    for source in found.files:
        (out / source.name).write_text(source.text, encoding="utf-8")
    before, after = (sum(len(s.text) for s in ss) for ss in (sources.values(), found.files))
    console.print(
        f"{plural(len(sources), 'config')}: {plural(found.reasons, 'reason')} and {plural(found.issues, 'issue')} "
        "out of comments, "
        f"{plural(found.split, 'entry', 'entries')} split by reason, {found.sharing} share {SHEET}; "
        f"{before:,} characters before, {after:,} now"
    )
    console.print(f"relay config lint {out} shows what is left to mend")
    return 0


def run_fmt(paths: Sequence[Path], *, check: bool = False, console: Console | None = None) -> int:
    """Rewrites files in this project's layout. With ``check`` writes nothing; 1 when a file would change."""
    console = console or Terminal(soft_wrap=True)
    changed = 0
    for path in yaml_files(paths):
        text = read_text(path)
        formatted = format_text(str(path), text)
        if formatted != text:
            changed += 1
            console.print(f"{'would change' if check else 'changed'} {path}")
            if not check:
                path.write_text(formatted, encoding="utf-8")
    console.print(f"{plural(changed, 'file')} {'would change' if check else 'changed'}")
    return 1 if check and changed else 0


def side(path: Path, *, compat: bool = False) -> Side:
    """A folder (its sheet applies), or one file alone."""
    files = list(yaml_files([path]))
    root = path
    if path.is_file():
        root = path.parent
        files += [root / name for name in _extended(read_text(path)) if (root / name).is_file()]
    sources = [ConfigSource(str(file.relative_to(root)), read_text(file)) for file in files]
    sheet = next((s for s in sources if s.name == CAPABILITY), None)
    capability = load_capability(sheet.text, sheet.name) if sheet is not None else None
    return Side(load_configs(sources, compat=compat), capability)


def _extended(text: str) -> list[str]:
    """Names in ``extends``; whatever is wrong with them is said when the config is loaded."""
    try:
        found = read(text)
    except YAMLError:
        return []
    suite = found.get("test_suite_config") if isinstance(found, dict) else None
    names = suite.get("extends", []) if isinstance(suite, dict) else []
    return [name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)]


def run_diff(
    a: Path,
    b: Path,
    upstream: Path | None = None,
    opdb: Path | None = None,
    *,
    compat: bool = False,
    as_json: bool = False,
    console: Console | None = None,
) -> int:
    """Prints which variants change mode from ``a`` to ``b``. 0 when none does, 1 otherwise."""
    console = console or Terminal(soft_wrap=True)
    sides = side(a, compat=compat), side(b, compat=compat)
    if upstream is not None:
        inventory = take(DirTree(upstream, only=is_inventoried))
        covered = [s.configs.covers for s in sides]
        tests = [test for test, _, _ in inventory.tests() if any(covers(test.file) for covers in covered)]
    else:
        tests = named_tests(*sides)
    ops = [(op.name, op.variant) for op in from_json(read_text(opdb)).ops] if opdb is not None else None
    changes = diff(*sides, tests, ops)
    if as_json:
        console.print_json(json.dumps([_as_dict(change) for change in changes]))
        return 1 if changes else 0
    last = None
    for change in changes:
        if change.test != last:
            console.print(str(change.test), style="bold")
            last = change.test
        ops_named = [op_word(op) for op in change.ops]
        more = f" and {len(ops_named) - SHOWN} more" if len(ops_named) > SHOWN else ""
        variants = f"{', '.join(ops_named[:SHOWN])}{more} × {', '.join(map(dtype_word, change.dtypes))}"
        console.print(Text.assemble(f"  {change.before} -> ", (str(change.after), "bold"), f"  {variants}"))
        console.print(f"    {change.was_by or '-'} -> {change.is_by or '-'}  {change.reason}")
    console.print(f"{plural(len(tests), 'test')} compared, {len({c.test for c in changes})} changed")
    return 1 if changes else 0


def _as_dict(change: Changed) -> dict[str, object]:
    return {
        "test": str(change.test),
        "ops": [op_word(op) for op in change.ops],
        "dtypes": [dtype_word(d) for d in change.dtypes],
        "before": change.before,
        "after": change.after,
        "was_by": change.was_by,
        "is_by": change.is_by,
        "reason": change.reason,
    }


def run_propose(
    results: Sequence[Path], out: Path, extends: Sequence[str], evidence: str, console: Console | None = None
) -> int:
    """Writes a config of the limits that results show. 0; 1 when failures remain that no limit explains."""
    console = console or Terminal(soft_wrap=True)
    lines = []
    for path in results:
        for number, text in enumerate(read_text(path).splitlines(), 1):
            try:
                lines.append(json.loads(text))
            except ValueError as exc:
                raise SettingsError(f"{path}:{number}: not a result: {exc}", "relay run --out writes them") from exc
    found = propose(lines, extends, evidence=evidence)
    out.write_text(found.text, encoding="utf-8")
    made = f"{plural(found.entries, 'entry', 'entries')} for {plural(found.files, 'file')}"
    console.print(f"{out}: {made}, out of {plural(len(lines), 'result')}")
    for test in found.unexplained:
        console.print(f"not explained by a limit of the device: {test}")
    return 1 if found.unexplained else 0


def run_schema(console: Console | None = None) -> int:
    """Prints the JSON Schema."""
    (console or Terminal()).file.write(json.dumps(json_schema(), indent=1) + "\n")
    return 0
