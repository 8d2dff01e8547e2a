"""What a migration may not do to tables that are in use, and to the release that still runs on them.

Until the first release there is one migration, which makes every table; it may do what it likes. Each later one must
leave the release before it working, and must not stop those who read and write meanwhile.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FIRST = "0001"


def problems(path: Path) -> list[str]:
    """What is wrong with a migration, as ``file:line: …``; [] for one that may be released."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    if _value(tree, "revision") == FIRST:
        return []
    found = [(1, "revision is not a number of four digits")] if not _numbered(tree) else []
    upgrade = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "upgrade"), None)
    if upgrade is None:
        found.append((1, "there is no upgrade()"))
    else:
        made = {_text(call.args[0]) for call in _calls(upgrade) if _name(call) == "create_table" and call.args}
        beside, contracted = _lines_of(upgrade, "beside_traffic"), _lines_of(upgrade, "contract")
        for call in _calls(upgrade):
            told = _of_call(call, made, call.lineno in beside, call.lineno in contracted)
            found += [(call.lineno, problem) for problem in told]
    return [f"{path.name}:{line}: {problem}" for line, problem in sorted(found)]


def _of_call(call: ast.Call, made: set[str | None], beside: bool, contracted: bool) -> Iterator[str]:
    name = _name(call)
    if name == "add_column":
        column = call.args[-1]
        if isinstance(column, ast.Call):
            options = {one.arg: one.value for one in column.keywords}
            strict = _constant(options.get("nullable")) is False
            if strict and "server_default" not in options:
                yield "a column that must not be null needs a server_default: the release before does not fill it"
            if any(isinstance(arg, ast.Call) and _name(arg) == "ForeignKey" for arg in column.args):
                yield "a foreign key checks every row under a lock: add it NOT VALID, and validate it in a later step"
    elif name == "create_index":
        table = _text(call.args[1]) if len(call.args) > 1 else None
        options = {one.arg: one.value for one in call.keywords}
        if table not in made and not (_constant(options.get("postgresql_concurrently")) is True and beside):
            yield "an index of a table in use is made with postgresql_concurrently=True in beside_traffic()"
    elif name == "contract":
        given = [*call.args, *(one.value for one in call.keywords)]
        if not given or not re.fullmatch(r"v\d+\.\d+\.\d+", _text(given[0]) or ""):
            yield "contract: name the release that used it last, as v1.2.0"
    elif name in ("drop_column", "drop_table") and not contracted:
        yield f"{name}: the release before still uses it; drop it two releases after its last use, by `contract`"
    elif name in ("alter_column", "rename_table"):
        yield f"{name}: rewrites or renames what the release before uses; add a new one beside it"
    elif name in ("create_check_constraint", "create_foreign_key", "create_unique_constraint"):
        yield f"{name}: checks every row under a lock; use NOT VALID or an index made concurrently"
    elif name == "execute":
        words = (_text(call.args[0]) or "").strip().upper() if call.args else ""
        if words.startswith(("UPDATE", "DELETE")):
            yield "an UPDATE or DELETE over a table in a migration locks its rows until the end: let a chore do it"
        if words.startswith(("LOCK", "VACUUM FULL", "CLUSTER", "ALTER TABLE")):
            yield f"{words.split()[0]}: say it by Alembic's operations, which these rules know"


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _lines_of(node: ast.AST, block: str) -> set[int]:
    """The lines within ``with …block(…):``."""
    found: set[int] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.With) and any(
            isinstance(item.context_expr, ast.Call) and _name(item.context_expr) == block for item in one.items
        ):
            found |= set(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return found


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call) and node.args:  # sa.text("…")
        return _text(node.args[0])
    value = _constant(node)
    return value if isinstance(value, str) else None


def _value(tree: ast.Module, name: str) -> object:
    for one in tree.body:
        if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in one.targets):
            return _constant(one.value)
    return None


def _numbered(tree: ast.Module) -> bool:
    revision = _value(tree, "revision")
    return isinstance(revision, str) and revision.isdecimal() and len(revision) == 4
