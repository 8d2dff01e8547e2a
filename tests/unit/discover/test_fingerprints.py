"""What a fingerprint ignores, what it does not, and that a helper's change selects exactly the tests that reach it."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selector.discover.parse import parse
from selector.discover.reach import Reach
from selector.discover.records import FileRecord

SOURCE = textwrap.dedent(
    """\
    import torch
    from torch.testing._internal.common_utils import TestCase
    LIMITS = {"low": 1, "high": 2.5}
    def scale(values, factor=2):
        def inner(value):
            return value * factor
        return [inner(v) for v in values if v is not None]
    class Base(TestCase):
        tolerance = 1e-3
        def setUp(self):
            self.values = scale([1, 2])
        def check(self, got, *, wanted=None):
            if wanted is None:
                wanted = LIMITS["low"]
            self.assertEqual(got, wanted, atol=self.tolerance)
    class TestThings(Base):
        @staticmethod
        def make(x): return x
        def test_scaled(self):
            self.check(scale([1])[0])
        async def test_awaited(self):
            with torch.no_grad():
                text = f"{self.values!r:>10}" "tail"
            assert text, "never empty"
        def test_alone(self):
            x = lambda a, /, b, *c, d=1, **e: (a, b)
            del x
    for name in ("one", "two"):
        setattr(TestThings, f"test_{name}", lambda self: None)
    """
)
LINES = SOURCE.splitlines()


def prints(source: str) -> dict[str, str]:
    record = parse(source.encode())
    assert record.problem == ""
    reach = Reach(record)
    found = {key: symbol.own for key, symbol in record.symbols.items()}
    for cls in record.classes.values():
        found |= {f"deep {cls.name}.{t.name}": reach.deep(cls.name, t.name) for t in cls.tests}
    return found


WANTED = prints(SOURCE)

noise = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)


@given(
    comments=st.dictionaries(st.integers(0, len(LINES) - 1), noise),
    trailing=st.dictionaries(st.integers(0, len(LINES) - 1), noise),
    blanks=st.sets(st.integers(0, len(LINES) - 1)),
    width=st.integers(1, 9),
    unparsed=st.booleans(),
)
def test_comments_blank_lines_and_indentation_never_count(
    comments: dict[int, str], trailing: dict[int, str], blanks: set[int], width: int, unparsed: bool
) -> None:
    out = []
    for number, line in enumerate(ast.unparse(ast.parse(SOURCE)).splitlines() if unparsed else LINES):
        depth = (len(line) - len(line.lstrip())) // 4
        if number in blanks:
            out.append("")
        if number in comments:
            out.append("#" + comments[number])
        tail = f"  # {trailing[number]}" if number in trailing else ""
        out.append(" " * width * depth + line.lstrip() + tail)
    assert prints("\n".join(out)) == WANTED


@given(st.lists(noise, min_size=1, max_size=3))
def test_docstrings_never_count(words: list[str]) -> None:
    tree = ast.parse(SOURCE)
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            node.body.insert(0, ast.Expr(ast.Constant(words[number % len(words)])))
    assert prints(ast.unparse(ast.fix_missing_locations(tree))) == WANTED


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("value * factor", "value + factor", {"test_scaled", "test_awaited", "test_alone"}),  # through setUp
        ('"low": 1', '"low": True', {"test_scaled"}),  # 1 == True, yet another constant
        ("tolerance = 1e-3", "tolerance = 1e-4", {"test_scaled", "test_awaited", "test_alone"}),
        ("wanted is None", "wanted is not None", {"test_scaled"}),
        ('"tail"', '"tails"', {"test_awaited"}),
        ("a, /, b", "a, b", {"test_alone"}),
        ('("one", "two")', '("one",)', {"test_scaled", "test_awaited", "test_alone"}),
        ("import torch\n", "import torch as torch\n", {"test_awaited"}),
    ],
)
def test_code_counts_for_the_tests_that_reach_it(old: str, new: str, changed: set[str]) -> None:
    assert SOURCE.count(old) == 1
    after = prints(SOURCE.replace(old, new))
    deep = {key for key in WANTED if key.startswith("deep")}
    assert {key.rpartition(".")[2] for key in deep if after[key] != WANTED[key]} == changed


@pytest.mark.parametrize(("old", "new"), [("a1b", "a1 b"), ("[1, 2]", "[12]"), ("f(a)(b)", "f(a, b)"), ("-1", "1")])
def test_different_code_has_different_hashes(old: str, new: str) -> None:
    def own(code: str) -> str:
        return (
            parse(f"def f():\n    return {code!r}, {code if code != 'a1b' and code != 'a1 b' else 0}\n".encode())
            .symbols["f"]
            .own
        )

    assert own(old) != own(new)


# ------------------------------------------------------------------------------- any helper's change selects its users


@st.composite
def call_graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[str], int]:
    """Helpers (each calls earlier ones), tests (each calls helpers), the kind of each helper, the one that changes."""
    count = draw(st.integers(1, 7))
    helpers = [draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else [] for i in range(count)]
    tests = draw(st.lists(st.lists(st.integers(0, count - 1), max_size=3), min_size=1, max_size=5))
    kinds = draw(st.lists(st.sampled_from(["function", "method", "constant", "class"]), min_size=count, max_size=count))
    # a module's function has no self to call methods by
    for i, kind in enumerate(kinds):
        if kind != "method" and any(kinds[j] == "method" for j in helpers[i]):
            kinds[i] = "method"
    return helpers, tests, kinds, draw(st.integers(0, count - 1))


def call(i: int, kinds: list[str]) -> str:
    return {"function": f"h{i}()", "method": f"self.h{i}()", "constant": f"h{i}", "class": f"h{i}().go()"}[kinds[i]]


def graph_source(helpers: list[list[int]], tests: list[list[int]], kinds: list[str], changed: int | None) -> str:
    top, methods = [], []
    for i, calls in enumerate(helpers):
        body = " + ".join(["1" if i != changed else "2", *(call(j, kinds) for j in calls)])
        if kinds[i] == "method":
            methods.append(f"    def h{i}(self):\n        return {body}\n")
        elif kinds[i] == "function":
            top.append(f"def h{i}():\n    return {body}\n")
        elif kinds[i] == "constant":
            top.append(f"h{i} = {body}\n")
        else:
            top.append(f"class h{i}:\n    def go(self):\n        return {body}\n")
    bodies = [
        f"    def test_{n}(self):\n        return [{', '.join(call(j, kinds) for j in calls)}]\n"
        for n, calls in enumerate(tests)
    ]
    return "\n".join([*top, "class TestGraph(TestCase):\n", *methods, *bodies])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call_graphs())
def test_a_changed_helper_selects_exactly_the_tests_that_reach_it(
    discovered: object, graph: tuple[list[list[int]], list[list[int]], list[str], int]
) -> None:
    helpers, tests, kinds, changed = graph
    reaching = {changed}
    for i, calls in enumerate(helpers):
        if reaching & set(calls):
            reaching.add(i)
    wanted = {f"test_{n}" for n, calls in enumerate(tests) if reaching & set(calls)}
    path = "test/test_graph.py"
    found = discovered(  # type: ignore[operator]
        {path: graph_source(helpers, tests, kinds, None)}, {path: graph_source(helpers, tests, kinds, changed)}
    )
    assert {impact.test.method for impact in found.impacts} == wanted
    for impact in found.impacts:
        assert impact.codes == ("helper",)
        assert {fact.path for fact in impact.evidence} == {path}


def test_record_of_a_broken_file_says_where() -> None:
    record: FileRecord = parse(b"def f(:\n")
    assert record.problem.startswith("line 1: ")
    assert record.tests == 0
