"""What a function does with the device that it is given: read from its source, nothing is imported or run.

A test of a device-generic class gets a device and may never use it: it makes its tensors without one, or only on
branches for other devices (``if self.device_type == "cuda"``). Whether any value made from the device leaves for
something that can run on it is what ``uses_of`` tells. Where syntax cannot tell, the answer is that it does.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from selector.discover.literals import dotted

FORMAT = "use2"
"""part of the key under which answers are kept"""

_NAME = re.compile(r"^(?:\w+_)?dev(?:ice)?s?(?:_?(?:types?|str|obj|name|id|[0-9]))?$")
_GIVEN = frozenset({"get_primary_device", "get_all_devices"})
_DESCRIBES = frozenset(
    {"device", "str", "len", "isinstance", "list", "tuple", "set", "sorted", "zip", "enumerate", "reversed", "product"}
    | {"combinations", "permutations", "range", "type", "repr", "format", "split", "startswith", "endswith", "replace"}
)
"""calls that make another description of a device out of one, and run nothing"""
_ASSERTS = re.compile(r"^(?:assert[A-Z]\w*|fail|skipTest|subTest|id)$")
OTHERS = ("cpu", "cuda", "mps", "xpu", "hpu", "meta", "xla", "lazy", "mtia", "vulkan", "ipu", "maia")
"""device types that a device of this kind never is"""
_ABSENT = frozenset({"TEST_CUDA", "TEST_MULTIGPU", "TEST_CUDNN", "TEST_MPS", "TEST_XPU", "TEST_HPU", "TEST_WITH_ROCM"})
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Use(NamedTuple):
    """``takes``: it has a parameter for a device; ``direct``: what it is given leaves for something unknown; ``own``:
    so does the device of ``self``; ``hands``: functions of its file (``f``, ``self.m``) that get what it is given."""

    takes: bool = False
    direct: bool = False
    own: bool = False
    hands: tuple[str, ...] = ()


def uses_of(source: bytes) -> dict[str, Use] | None:
    """The uses of every function and method (``f``, ``Class.m``), and of a class's fixtures (``Class``). None for a
    source that cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        lines = source.splitlines()
        functions = frozenset(node.name for node in _statements(tree.body) if isinstance(node, _Function))
        found: dict[str, Use] = {}
        for node in _statements(tree.body):
            if isinstance(node, _Function):
                found[node.name] = _merged(found.get(node.name), _use(node, functions, lines))
            elif isinstance(node, ast.ClassDef):
                _class(node, node.name, functions, lines, found)
        return found
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def to_bytes(uses: Mapping[str, Use]) -> bytes:
    return json.dumps({key: use for key, use in uses.items() if use != Use()}, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> dict[str, Use]:
    """The reverse; functions without any use are left out. Raises ValueError for anything else."""
    try:
        return {key: Use(row[0], row[1], row[2], tuple(row[3])) for key, row in json.loads(data).items()}
    except (TypeError, LookupError, AttributeError, UnicodeDecodeError) as exc:
        raise ValueError(f"not a table of uses: {exc}") from exc


def _use(node: _Function, functions: frozenset[str], lines: Sequence[bytes]) -> Use:
    """A function whose text has no name of a device in it is not looked at any further."""
    text = lines[node.lineno - 1 : node.end_lineno]
    return _Walk(node, functions).use() if any(b"dev" in line for line in text) else Use()


def _class(
    node: ast.ClassDef, key: str, functions: frozenset[str], lines: Sequence[bytes], found: dict[str, Use]
) -> None:
    fixtures = Use()
    for item in _statements(node.body):
        if isinstance(item, _Function):
            use = _use(item, functions, lines)
            if item.name in ("setUp", "setUpClass", "__init__"):
                fixtures = _merged(fixtures, use._replace(takes=False, direct=False, hands=()))
            else:
                name = f"{key}.{item.name}"
                found[name] = _merged(found.get(name), use)
        elif isinstance(item, ast.ClassDef):
            _class(item, f"{key}.{item.name}", functions, lines, found)
    found[key] = _merged(found.get(key), fixtures)


def _statements(body: Sequence[ast.stmt]) -> Iterable[ast.stmt]:
    """The definitions of a module or class, those under if, try and with among them."""
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)
        else:
            yield node


def _merged(one: Use | None, other: Use) -> Use:
    if one is None:
        return other
    hands = tuple(sorted({*one.hands, *other.hands}))
    return Use(one.takes or other.takes, one.direct or other.direct, one.own or other.own, hands)


class _Walk:
    """One function; functions inside of it are walked as a part of it."""

    def __init__(self, node: _Function, functions: frozenset[str]) -> None:
        self.functions = functions
        self.given: set[str] = set()
        self.owned: set[str] = set()
        self.direct = self.own = False
        self.hands: set[str] = set()
        self.parameters(node.args)
        self.takes = bool(self.given)
        self.inner = {n.name for n in ast.walk(node) if isinstance(n, _Function) and n is not node}
        self.block(node.body)

    def use(self) -> Use:
        return Use(self.takes, self.direct, self.own, tuple(sorted(self.hands)))

    def parameters(self, args: ast.arguments) -> None:
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self.given.update(a.arg for a in every if _NAME.match(a.arg))

    # ------------------------------------------------------------------------------------------------------ statements

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Whether what follows the block is never reached."""
        return any(self.statement(node) for node in body)

    def statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            truth = self.truth(node.test)
            self.value(node.test)
            ended = self.block(node.body) if truth is not False else True
            other = self.block(node.orelse) if truth is not True else True
            if truth is None:
                return ended and other and bool(node.orelse)
            return ended if truth else (other and bool(node.orelse))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            kind = self.value(node.value) if node.value is not None else ""
            for target in targets:
                self.bind(target, kind)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.bind(node.target, self.value(node.iter))
            self.block(node.body)
            self.block(node.orelse)
        elif isinstance(node, _Function):
            self.parameters(node.args)
            self.block(node.body)
        elif isinstance(node, ast.Return):
            self.leaves(self.value(node.value) if node.value is not None else "")
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                kind = self.value(item.context_expr)
                self.leaves(kind)  # what is made inside is made there
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, kind)
            return self.block(node.body)
        elif isinstance(node, ast.Expr):
            self.value(node.value)
            call = node.value
            return isinstance(call, ast.Call) and dotted(call.func) == "self.skipTest"
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    self.statement(child)
                elif isinstance(child, ast.expr):
                    self.value(child)
                elif isinstance(child, ast.ExceptHandler):
                    self.block(child.body)
        return isinstance(node, _ENDS)

    def bind(self, target: ast.expr, kind: str) -> None:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Name):
                if kind:
                    (self.given if kind == "given" else self.owned).add(inner.id)
            elif isinstance(inner, ast.Subscript):
                self.value(inner.value)

    # ----------------------------------------------------------------------------------------------------- expressions

    def value(self, node: ast.expr) -> str:
        """``given``, ``own`` or '': whose device the value describes. What leaves on the way is noted."""
        if isinstance(node, ast.Name):
            return "given" if node.id in self.given else "own" if node.id in self.owned else ""
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                return "own" if _NAME.match(node.attr) else ""
            return self.value(node.value)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                self.value(part)
            return ""
        if isinstance(node, ast.IfExp):
            truth = self.truth(node.test)
            self.value(node.test)
            kinds = [
                self.value(node.body) if truth is not False else "",
                self.value(node.orelse) if truth is not True else "",
            ]
            return max(kinds)
        if isinstance(node, ast.Lambda):
            self.parameters(node.args)
            self.leaves(self.value(node.body))
            return ""
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for made in node.generators:
                self.bind(made.target, self.value(made.iter))
                for condition in made.ifs:
                    self.value(condition)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            return max(self.value(part) for part in parts)
        return max((self.value(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)), default="")

    def call(self, node: ast.Call) -> str:
        name = dotted(node.func)
        last = name.rpartition(".")[2] or getattr(node.func, "attr", "")
        if name.startswith("self.") and last in _GIVEN:
            return "own"
        base = self.value(node.func) if not isinstance(node.func, ast.Name) else ""
        kind = max((self.value(a) for a in [*node.args, *(k.value for k in node.keywords)]), default="")
        if base and last in _DESCRIBES | {"type", "index"}:
            return base
        if last in _DESCRIBES and (not name.startswith("torch.") or last == "device"):
            return kind  # torch.range and torch.split are no builtins: they run
        if name.startswith("self.") and _ASSERTS.match(last):
            return ""
        if name == f"self.{last}" or (name == last and name in self.functions and name not in self.inner):
            if kind == "given":
                self.hands.add(name)
            elif kind:
                self.own = True
            return ""
        self.leaves(max(kind, base))
        return ""

    def leaves(self, kind: str) -> None:
        if kind == "given":
            self.direct = True
        elif kind:
            self.own = True

    # ------------------------------------------------------------------------------------------------------ conditions

    def truth(self, node: ast.expr) -> bool | None:
        """What a condition is on a device that is none of OTHERS, on a host that has no other; None: not known."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            parts = [self.truth(value) for value in node.values]
            wanted = isinstance(node.op, ast.Or)
            if wanted in parts:
                return wanted
            return None if None in parts else not wanted
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.compared(node.left, node.ops[0], node.comparators[0])
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in ("torch.cuda.is_available", "torch.xpu.is_available", "torch.mps.is_available"):
                return False
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr == "startswith"
                and self.describes(node.func.value)
            ):
                return False if node.args and _others(node.args[0]) else None
            return None
        name = dotted(node).rpartition(".")[2]
        return False if name in _ABSENT else None

    def compared(self, left: ast.expr, how: ast.cmpop, right: ast.expr) -> bool | None:
        if self.describes(right) and not self.describes(left):
            left, right = right, left
        if not self.describes(left) or not _others(right):
            return None
        if isinstance(how, ast.Eq | ast.In | ast.Is):
            return False
        return True if isinstance(how, ast.NotEq | ast.NotIn | ast.IsNot) else None

    def describes(self, node: ast.expr) -> bool:
        quiet = _Quiet(self)
        return bool(quiet.value(node))


class _Quiet(_Walk):
    """The same look at a value, without noting what leaves."""

    def __init__(self, of: _Walk) -> None:
        self.functions, self.inner = of.functions, of.inner
        self.given, self.owned = set(of.given), set(of.owned)
        self.direct = self.own = False
        self.hands = set()


def _others(node: ast.expr) -> bool:
    """Whether the constants in it all name other devices."""
    words = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    plain = isinstance(node, ast.Constant | ast.Tuple | ast.List | ast.Set) or dotted(
        getattr(node, "func", node)
    ).endswith("device")
    return plain and bool(words) and all(isinstance(w, str) and w.partition(":")[0] in OTHERS for w in words)
