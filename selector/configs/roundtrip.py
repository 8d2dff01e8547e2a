"""Writing configs: comments, order and quoting stay (ruamel.yaml), and what was written says what was read."""

from __future__ import annotations

import io
from typing import Any

import yaml as pyyaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from selector.errors import ConfigError

WIDTH = 120
_FEW = 24


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.width = WIDTH
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def load(name: str, text: str) -> Any:
    """The document as ruamel's own maps and lists. Raises ConfigError."""
    try:
        return _yaml().load(text)
    except YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise ConfigError(name, line, column, f"not valid YAML: {getattr(exc, 'problem', exc)}") from exc


def dump(value: Any) -> str:
    out = io.StringIO()
    _yaml().dump(value, out)
    written = out.getvalue()
    stripped = "\n".join(line.rstrip() for line in written.splitlines()) + "\n"
    return stripped if read(stripped) == read(written) else written  # blanks at the end of a line of text stay


def _unfold(value: Any) -> None:
    """Gives each element of a ``[list]`` that is too long for its line a line of its own, unless they are many."""
    if isinstance(value, CommentedMap | CommentedSeq) and value.fa.flow_style():
        plain = not (value.ca.items or any(isinstance(one, dict | list) for one in value))
        length = len(", ".join(map(str, value))) + 2  # without quotes, which are rare
        if isinstance(value, CommentedSeq) and plain and len(value) <= _FEW and value.lc.col + length > WIDTH:
            value.fa.set_block_style()
        return
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _unfold(one)


def format_text(name: str, text: str) -> str:
    """The same config in this project's layout. Raises ConfigError for a text that is not YAML, and for one whose
    layout cannot be changed without changing what it says."""
    formatted = text
    for _ in range(3):  # a comment that moves may move once more
        loaded = load(name, formatted)
        _unfold(loaded)
        again = dump(loaded)
        if again == formatted:
            break
        formatted = again
    if read(formatted) != read(text):
        hint = "it is left as it is; aliases and exotic scalars are the usual cause"
        raise ConfigError(name, 1, 1, "formatting would change what the file says", hint)
    return formatted


def read(text: str) -> object:
    """What a reader of the format gets, to compare before and after."""
    loader: Any = getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader)
    value: object = pyyaml.load(text, Loader=loader)
    return value
