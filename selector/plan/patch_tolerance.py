"""A tolerance in a config: with an op's dtype in ``global.supported_ops``, or, for an op that is not in that list, in
``global.op_precision``; or in an entry of a test that has no ops.

An entry of a test of ops has no place for it: a dtype that an entry includes is generated for every op of the test.
The list of supported ops has: naming the dtypes that the config supports anyway leaves no variant out. But naming an
op there that was not named would make it supported, and, where there is no such list, every other op unsupported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from selector.configs import op_names
from selector.errors import ConfigError
from selector.model import Mode, TestId
from selector.plan.yaml_nodes import dash_of, get, last_line, scalar


@dataclass(frozen=True, slots=True)
class ToleranceEdit:
    """Comparisons of ``op`` (None: of ``test``, which has no ops) in ``dtype`` get these tolerances. ``mode``: the
    test's, which stays; ``dtypes``: all that the config supports, for an op that lists none yet; ``test`` stands for
    all that showed it."""

    test: TestId
    op: str | None
    dtype: str
    atol: float
    rtol: float
    reason: str
    evidence: str
    mode: Mode = Mode.MANDATORY_SUCCESS
    dtypes: tuple[str, ...] = ()
    issue: str = ""

    def why(self) -> list[tuple[str, str]]:
        given = (("reason", self.reason), ("evidence", self.evidence), ("issue", self.issue))
        return [(key, value) for key, value in given if value]

    @property
    def precision(self) -> str:
        return f"{{atol: {number(self.atol)}, rtol: {number(self.rtol)}}}"

    def item(self, name: str) -> str:
        """A dtype of a list in flow style, with the tolerance where it is this one."""
        if name != self.dtype:
            return f"{{name: {name}}}"
        return f"{{name: {name}, precision: {self.precision}, {self.inline_why()}}}"

    def inline_why(self) -> str:
        return ", ".join(f"{key}: {_inline(value)}" for key, value in self.why())

    def entry_lines(self) -> list[str]:
        """What an entry says beside its mode and reasons."""
        return [f"edits: {{dtypes: {{include: [{{name: {self.dtype}, precision: {self.precision}}}]}}}}"]


def number(value: float) -> str:
    """With two digits, and the point that makes it a number to every reader of YAML: 6.0e-05."""
    return f"{value:.1e}"


def _inline(text: str) -> str:
    """A scalar inside of a flow collection, where commas and brackets would end a plain one."""
    flat = scalar(text)
    return flat if flat[:1] in ("'", '"') or not set(flat) & set(",[]{}") else "'" + flat.replace("'", "''") + "'"


def op_dtype_changes(source: str, root: Node | None, text: str, edit: ToleranceEdit) -> Iterator[tuple[int, int, str]]:
    """(start, end, new text) of what changes. Raises ConfigError where the op has no place."""
    assert edit.op is not None
    block = get(get(root, "test_suite_config"), "global") or get(root, "global")
    names = op_names(edit.op)
    lists = [get(block, key) for key in ("op_precision", "supported_ops")]
    found = [n for ops in lists if isinstance(ops, SequenceNode) for n in ops.value if _named(n) in names]
    if not found:
        yield _rough_op(source, root, text, edit)
        return
    item = found[0]
    if isinstance(item, ScalarNode):
        new = f"{{name: {text[item.start_mark.index : item.end_mark.index]}, dtypes: {_dtypes(source, item, edit)}}}"
        yield item.start_mark.index, item.end_mark.index, new
        return
    listed = get(item, "dtypes")
    if listed is None:
        yield _with_key(text, item, f"dtypes: {_dtypes(source, item, edit)}")
        return
    dtype = (
        next((n for n in listed.value if _named(n) == edit.dtype), None) if isinstance(listed, SequenceNode) else None
    )
    if dtype is None and isinstance(lists[0], SequenceNode) and item in lists[0].value:
        yield _appended(source, text, listed, edit.item(edit.dtype))
        return
    if dtype is None:
        line = item.start_mark.line + 1
        raise ConfigError(source, line, 1, f"{edit.op} does not list {edit.dtype} among its dtypes", "edit it by hand")
    yield from _dtype_changes(text, dtype, edit)


def _rough_op(source: str, root: Node | None, text: str, edit: ToleranceEdit) -> tuple[int, int, str]:
    """A new item of ``op_precision``, which is made where there is none."""
    assert edit.op is not None
    item = f"{{name: {scalar(edit.op)}, dtypes: [{edit.item(edit.dtype)}]}}"
    suite = get(root, "test_suite_config") or root
    block = get(suite, "global")
    known = get(block, "op_precision")
    if known is not None:
        return _appended(source, text, known, item)
    lines = ["op_precision:", f"  - {item}"]
    if isinstance(block, MappingNode) and block.value and not block.flow_style:
        return _below(text, block, lines)
    if block is not None or not isinstance(suite, MappingNode) or suite.flow_style or not suite.value:
        there = block or suite
        line = there.start_mark.line + 1 if there is not None else 1
        raise ConfigError(
            source, line, 1, f"there is no block to put the tolerance of {edit.op} into", "edit it by hand"
        )
    # in front of the files, which may be long
    key = next((k for k, _ in suite.value if k.value == "files"), suite.value[0][0])
    at, indent = key.start_mark.index, " " * key.start_mark.column
    return at, at, f"\n{indent}".join(["global:", *(f"  {line}" for line in lines)]) + f"\n{indent}"


def _appended(source: str, text: str, items: Node | None, item: str) -> tuple[int, int, str]:
    """One more item of a list."""
    if not isinstance(items, SequenceNode) or not items.value:
        line = items.start_mark.line + 1 if items is not None else 1
        raise ConfigError(source, line, 1, "there is no list to put the tolerance into", "edit it by hand")
    if items.flow_style:
        at = items.value[-1].end_mark.index
        return at, at, f", {item}"
    dash = " " * dash_of(text, items.value[-1])
    return _below(text, items, [f"- {item}"], dash)


def _below(text: str, node: Node, lines: Sequence[str], indent: str | None = None) -> tuple[int, int, str]:
    """Lines below the last one of a block."""
    end = text.find("\n", _start_of(text, last_line(node)))
    column = " " * node.start_mark.column if indent is None else indent
    if end < 0:
        return len(text), len(text), "".join(f"\n{column}{line}" for line in lines)
    return end + 1, end + 1, "".join(f"{column}{line}\n" for line in lines)


def _dtype_changes(text: str, dtype: Node, edit: ToleranceEdit) -> Iterator[tuple[int, int, str]]:
    precision = get(dtype, "precision")
    if precision is None:
        if isinstance(dtype, MappingNode) and dtype.flow_style:
            yield _with_key(text, dtype, f"precision: {edit.precision}, {edit.inline_why()}")
        else:
            lines = [f"precision: {edit.precision}", *(f"{key}: {scalar(value)}" for key, value in edit.why())]
            yield _with_key(text, dtype, *lines)
        return
    missing = []
    for key, value in (("atol", edit.atol), ("rtol", edit.rtol)):
        there = get(precision, key)
        if there is None:
            missing.append(f"{key}: {number(value)}")
        else:
            yield there.start_mark.index, there.end_mark.index, number(value)
    if missing:
        flow = isinstance(precision, MappingNode) and precision.flow_style
        yield _with_key(text, precision, *([", ".join(missing)] if flow else missing))


def _with_key(text: str, node: Node, *lines: str) -> tuple[int, int, str]:
    """A map with more keys: before the brace that closes it, or as lines below its last one."""
    if isinstance(node, MappingNode) and node.flow_style:
        at = node.end_mark.index - 1
        return at, at, ", " + lines[0]
    return _below(text, node, lines)


def _start_of(text: str, line: int) -> int:
    at = 0
    for _ in range(line):
        at = text.index("\n", at) + 1
    return at


def _dtypes(source: str, item: Node, edit: ToleranceEdit) -> str:
    if edit.dtype not in edit.dtypes:
        line = item.start_mark.line + 1
        message = f"{edit.op} lists no dtypes, and the config does not say which ones it supports"
        raise ConfigError(source, line, 1, message, "add supported_dtypes, or edit it by hand")
    return "[" + ", ".join(map(edit.item, edit.dtypes)) + "]"


def _named(node: Node) -> str | None:
    name = node if isinstance(node, ScalarNode) else get(node, "name")
    return name.value if isinstance(name, ScalarNode) else None
