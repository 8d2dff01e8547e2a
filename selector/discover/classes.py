"""A class and its tests as written: decorators, op lists, dtypes, parametrisations."""

from __future__ import annotations

import ast
from collections import defaultdict

from selector.discover import conditions, literals
from selector.discover.records import UNKNOWN, ClassRecord, DbUse, Decorator, Instantiation, MethodRecord

Function = ast.FunctionDef | ast.AsyncFunctionDef
PARAMETRIZED = "instantiate_parametrized_tests"
_MAX_FACTOR = 100_000


def class_record(
    name: str, cls: ast.ClassDef, scope: literals.Scope, made: tuple[Instantiation, ...], *, parametrized: bool
) -> ClassRecord:
    """``name`` is the class's full name in its module; ``made``: how it is instantiated for devices."""
    decorators = tuple(_decorator(d, scope) for d in cls.decorator_list)
    inner = _class_scope(cls, scope)
    hardware = ""
    hides: list[str] = []
    tests: dict[str, MethodRecord] = {}
    for statement in cls.body:
        if isinstance(statement, Function) and statement.name.startswith("test"):
            tests[statement.name] = _test(statement, inner)
        elif isinstance(statement, ast.Assign):
            target = literals.dotted(statement.targets[0])
            if target == "hw_classification":
                hardware = literals.dotted(statement.value).rpartition(".")[2] or UNKNOWN
            elif target.startswith("test") and isinstance(statement.value, ast.Constant):
                hides.append(target)
    parametrized = parametrized or any(d.name == PARAMETRIZED for d in decorators)
    bases = tuple(literals.dotted(b) or UNKNOWN for b in cls.bases)
    written = tuple(tests.values())
    return ClassRecord(name, cls.lineno, bases, decorators, written, made, parametrized, hardware, tuple(hides))


def _class_scope(cls: ast.ClassDef, scope: literals.Scope) -> literals.Scope:
    """The module's names, and those that the class gives a value once (an op list made for its tests)."""
    own: dict[str, list[ast.expr]] = defaultdict(list)
    for statement in cls.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    own[target.id].append(statement.value)
    return {**scope, **{name: values[0] for name, values in own.items() if len(values) == 1}} if own else scope


def _test(node: Function, scope: literals.Scope) -> MethodRecord:
    ops: DbUse | None = None
    modules: DbUse | None = None
    dtypes: tuple[str, ...] | None = None
    factor = 1
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        name = literals.dotted(decorator.func).rpartition(".")[2]
        if name in ("ops", "modules", "optims"):
            use = literals.database_use(decorator, scope)
            if name == "ops":
                ops = use
            else:
                modules = use
        elif name == "dtypes":
            dtypes = literals.dtype_names(decorator.args, scope)
        elif name in ("parametrize", "subtest"):
            factor = min(factor * _choices(decorator), _MAX_FACTOR)
        elif isinstance(decorator.func, ast.Name) and decorator.func.id in scope:
            # an alias made by functools.partial(ops, ...)
            bound = scope[decorator.func.id]
            if isinstance(bound, ast.Call) and bound.args and literals.dotted(bound.args[0]) == "ops":
                merged = ast.Call(
                    bound.args[0], [*bound.args[1:], *decorator.args], decorator.keywords + bound.keywords
                )
                ops = literals.database_use(ast.copy_location(merged, decorator), scope)
    arguments = tuple(a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
    decorators = tuple(_decorator(d, scope) for d in node.decorator_list)
    return MethodRecord(node.name, node.lineno, arguments[1:], decorators, ops, modules, dtypes, factor)


def _decorator(node: ast.expr, scope: literals.Scope) -> Decorator:
    line = node.lineno
    node = _skip_of(node, scope) or node
    if not isinstance(node, ast.Call):
        return Decorator(literals.dotted(node).rpartition(".")[2] or UNKNOWN, line)
    name = literals.dotted(node.func).rpartition(".")[2] or UNKNOWN
    args = [_short(a, scope) for a in node.args]
    if name in conditions.SKIPS and args:
        args[0] = conditions.as_text(node.args[0], scope)
    args += [f"{k.arg}={_short(k.value, scope)}" for k in node.keywords if k.arg]
    names: set[str] = set()
    if not name.endswith("ops"):
        for part in [*node.args, *(k.value for k in node.keywords)]:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Name):
                    names.add(inner.id)
                elif isinstance(inner, ast.Attribute):
                    names.add(inner.attr)
    return Decorator(name, line, tuple(args), tuple(sorted(names)))


def _skip_of(node: ast.expr, scope: literals.Scope) -> ast.Call | None:
    """The skip that a decorator of the module stands for: ``needs_x = skipIf(...)``, or a ``partial`` of it, called."""
    called = isinstance(node, ast.Call)
    name = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else node
    bound = scope.get(name.id) if isinstance(name, ast.Name) else None
    if not isinstance(bound, ast.Call):
        return None
    if called and literals.dotted(bound.func).rpartition(".")[2] == "partial" and bound.args:
        bound = ast.Call(bound.args[0], bound.args[1:], bound.keywords)
    elif called:
        return None
    return bound if literals.dotted(bound.func).rpartition(".")[2] in conditions.SKIPS else None


def _choices(call: ast.Call) -> int:
    if len(call.args) > 1:
        values = call.args[1]
        if isinstance(values, ast.List | ast.Tuple):
            return max(1, len(values.elts))
        return 2  # made elsewhere: at least as many as are worth a parametrisation
    return 1


def _short(node: ast.expr, scope: literals.Scope) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)[:80]
    name = literals.dotted(node)
    if name and name not in scope:
        return name
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and literals.dotted(node.operand):
        return f"not {literals.dotted(node.operand)}"
    found = literals.strings(node, scope)
    return ",".join(found)[:80] if found is not None else UNKNOWN
