"""What strangers write is shown on a terminal and does not steer it."""

from __future__ import annotations

import ast
import io
from pathlib import Path

from rich.table import Table

from relay.cli.run import print_results
from relay.cli.terminal import Terminal

BOMB = "said \x1b[2J\x1b]8;;http://example.org\x07\x9b31m\x00\u202e"
ROOM = Path(__file__).parents[2] / "relay"


def printed(*what: object) -> str:
    out = io.StringIO()
    console = Terminal(file=out, width=200, force_terminal=False)
    for one in what:
        console.print(one)
    return out.getvalue()


def test_texts_hold_no_control_characters_wherever_they_stand() -> None:
    table = Table("column")
    table.add_row(BOMB)
    for said in (printed(BOMB), printed(table)):
        assert "said" in said
        assert [c for c in said if not c.isprintable() and c not in "\n\t"] == []
    assert printed("a\tb\nc").split() == ["a", "b", "c"]


def test_texts_are_shown_letter_by_letter() -> None:
    for text in ("reuse.yaml:100:5: error: x", "out/[red]/a[/b].yaml :key: [bold]x"):
        table = Table("column")
        table.add_row(text)
        assert printed(text) == f"{text}\n"
        assert text in printed(table)
    out = io.StringIO()
    Terminal(file=out, force_terminal=True, color_system="standard").print("test_a 100 'b' /c/d")
    assert out.getvalue() == "test_a 100 'b' /c/d\n"


def test_styles_are_still_those_of_a_terminal() -> None:
    out = io.StringIO()
    Terminal(file=out, force_terminal=True, color_system="standard").print("strong", style="bold")
    assert "\x1b[1mstrong\x1b[0m" in out.getvalue()


def test_results_of_a_hostile_test_are_shown() -> None:
    out = io.StringIO()
    line = {"test": "test/test_x.py::T::test_a", "variant": "test_a", "outcome": "failed", "mode": "mandatory_success",
            "message": BOMB, "seconds": 0.0, "kernels": 0}  # fmt: skip
    print_results([line], {"errors": [{"file": "test/test_y.py", "message": BOMB}]}, Terminal(file=out, width=300))
    assert out.getvalue().count("said") == 2
    assert "\x1b" not in out.getvalue()


def test_nobody_makes_another_console() -> None:
    made = [
        f"{path.relative_to(ROOM)}:{node.lineno}"
        for path in ROOM.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console"
    ]
    assert made == [], "relay.cli.terminal.Terminal"
