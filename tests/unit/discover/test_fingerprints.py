"""What a fingerprint ignores, what it does not, and that a helper's change selects exactly the tests that reach it."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selector.discover import take
from selector.discover.fingerprints import PARTS, Prints, differences
from selector.discover.parse import parse
from selector.discover.records import FileRecord
from selector.model import TestId
from selector.trees import MemoryTree

PATH = "test/test_things.py"

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
    inventory = take(MemoryTree({PATH: source}))
    assert inventory.problems() == []
    prints = Prints(inventory)
    found = {key: symbol.own for key, symbol in inventory.files[PATH].symbols.items()}
    for test, _, _ in inventory.tests():
        found[f"deep {test.cls}.{test.method}"] = prints.of(test).deep
    return found


WANTED = prints(SOURCE)
EVERY = {"test_scaled", "test_awaited", "test_alone", "test_one", "test_two"}

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
        ("value * factor", "value + factor", EVERY),  # through setUp
        ('"low": 1', '"low": True', {"test_scaled"}),  # 1 == True, yet another constant
        ("tolerance = 1e-3", "tolerance = 1e-4", EVERY),
        ("wanted is None", "wanted is not None", {"test_scaled"}),
        ('"tail"', '"tails"', {"test_awaited"}),
        ("a, /, b", "a, b", {"test_alone"}),
        ('("one", "two")', '("one",)', EVERY),
        ("import torch\n", "import torch as torch\n", {"test_awaited"}),
    ],
)
def test_code_counts_for_the_tests_that_reach_it(old: str, new: str, changed: set[str]) -> None:
    assert SOURCE.count(old) == 1
    after = prints(SOURCE.replace(old, new))
    deep = {key for key in WANTED if key.startswith("deep")}
    assert {key.rpartition(".")[2] for key in deep if after.get(key) != WANTED[key]} == changed


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


# ------------------------------------------------------------------------------------- which part of a test an edit is


PARTS_LIB = """
def skipIf(condition): return lambda fn: fn
def compare(a, b): return a == b
def unused(): return 1
class TestCase:
    precision = 0
    def setUp(self): pass
    def assertEqual(self, a, b): return compare(a, b)
    def assertClose(self, a, b): return a - b
op_db = [
    OpInfo("add", dtypes=floats(), skips=(DecorateInfo("x"),)),
    OpInfo("sub", dtypes=floats()),
]
"""
PARTS_BASE = """
from torch.testing._internal.common_utils import TestCase
class Shared(TestCase):
    limit = 1
    def test_shared(self): self.assertClose(1, self.scale())
    def scale(self): return 2
"""
PARTS_TESTS = """
from torch.testing._internal.common_utils import TestCase, skipIf
from torch.testing._internal.common_methods_invocations import op_db
from base import Shared
WIDTH = 3
def helper(n):
    # a remark
    return n + WIDTH
class Value:
    def go(self): return 4
class TestA(TestCase):
    tolerance = 5
    @skipIf(False)
    def test_a(self):
        \"\"\"What it does.\"\"\"
        self.assertEqual(helper(1), self.tolerance)
    @ops(op_db)
    def test_b(self, device, dtype, op): return Value().go()
    def test_c(self): pass
class TestS(Shared):
    def scale(self): return 6
instantiate_device_type_tests(TestA, globals())
for name in ("x",):
    setattr(TestA, f"test_{name}", lambda self: 7)
"""
LIBRARY = "torch/testing/_internal/common_utils.py"
FILES = {LIBRARY: PARTS_LIB, "test/base.py": PARTS_BASE, "test/test_p.py": PARTS_TESTS}
LIB_CASE = f"{LIBRARY}::TestCase"

# path, what is replaced, with what; then the tests whose fingerprint differs, each with its parts and their symbols
FOUR = ("test_a", "test_b", "test_c", "test_x")
EDITS = [
    ("test/test_p.py", "# a remark\n", "# another\n\n", {}),
    ("test/test_p.py", "What it does.", "Something else.", {}),
    ("test/test_p.py", "return n + WIDTH", "return (n + WIDTH)", {}),
    ("test/test_p.py", "helper(1)", "helper(2)", {"test_a": {"body": ("",)}}),
    ("test/test_p.py", "skipIf(False)", "skipIf(True)", {"test_a": {"decorators": ("",)}}),
    ("test/test_p.py", "@ops(op_db)", "@ops(op_db, dtypes=())", {"test_b": {"decorators": ("",)}}),
    ("test/test_p.py", "n + WIDTH", "n * WIDTH", {"test_a": {"helpers": ("helper",)}}),
    ("test/test_p.py", "WIDTH = 3", "WIDTH = 33", {"test_a": {"constants": ("WIDTH",)}}),
    ("test/test_p.py", "return 4", "return 44", {"test_b": {"helpers": ("Value.go",)}}),
    ("test/test_p.py", "tolerance = 5", "tolerance = 55",
     {name: {"chain": ("TestA",)} for name in FOUR}),
    ("test/test_p.py", "(TestA, globals())", "(TestA, globals(), only_for='cpu')",
     {name: {"chain": ("TestA",)} for name in FOUR}),
    ("test/test_p.py", "return 6", "return 66", {"test_shared": {"helpers": ("TestS.scale",)}}),
    ("test/test_p.py", "lambda self: 7", "lambda self: 77",
     {name: {"module": ("<module>",)} for name in (*FOUR, "test_shared")}),
    ("test/test_p.py", "def test_c(self)", "def test_c(self, n=1)", {"test_c": {"body": ("",)}}),
    ("test/base.py", "limit = 1", "limit = 11", {"test_shared": {"chain": ("test/base.py::Shared",)}}),
    ("test/base.py", "assertClose(1,", "assertClose(11,", {"test_shared": {"body": ("",)}}),
    (LIBRARY, "return a == b", "return a is b", {"test_a": {"library": (f"{LIBRARY}::compare",)}}),
    (LIBRARY, "return a - b", "return b - a", {"test_shared": {"library": (f"{LIB_CASE}.assertClose",)}}),
    (LIBRARY, "precision = 0", "precision = 1",
     {name: {"library": (LIB_CASE,)} for name in (*FOUR, "test_shared")}),
    (LIBRARY, "lambda fn: fn", "lambda fn: (fn)", {}),
    (LIBRARY, "lambda fn: fn", "lambda f: f", {"test_a": {"library": (f"{LIBRARY}::skipIf",)}}),
    (LIBRARY, "def unused(): return 1", "def unused(): return 2", {}),
]  # fmt: skip


def all_parts(files: dict[str, str]) -> dict[str, object]:
    inventory = take(MemoryTree(files))
    prints = Prints(inventory)
    tests = [test for test, _, _ in inventory.tests() if test.cls != "Shared"]
    for test in tests:  # a hash a part, and no part twice
        parts = prints.parts(test)
        assert [bool(one) for one in prints.of(test)] == [bool(parts[part]) for part in PARTS]
    return {test.method: prints.parts(test) for test in tests}


@pytest.mark.parametrize(("path", "old", "new", "changed"), EDITS)
def test_an_edit_is_told_by_its_part(path: str, old: str, new: str, changed: dict[str, object]) -> None:
    assert FILES[path].count(old) == 1
    before, after = all_parts(FILES), all_parts({**FILES, path: FILES[path].replace(old, new)})
    assert before.keys() == after.keys() == {"test_a", "test_b", "test_c", "test_x", "test_shared"}
    found = {name: differences(before[name], after[name]) for name in before}  # type: ignore[arg-type]
    assert {name: parts for name, parts in found.items() if parts} == changed


def test_a_renamed_test_keeps_its_body() -> None:
    prints = Prints(take(MemoryTree(FILES)))
    renamed = {**FILES, "test/test_p.py": PARTS_TESTS.replace("def test_a(", "def test_other(")}
    after = Prints(take(MemoryTree(renamed)))
    path = "test/test_p.py"
    assert prints.of(TestId(path, "TestA", "test_a")) == after.of(TestId(path, "TestA", "test_other"))


def test_every_entry_and_helper_of_the_library_has_a_key_of_its_own() -> None:
    hashes = Prints(take(MemoryTree(FILES))).hashes
    assert {key.removeprefix(f"{LIBRARY}::") for key in hashes} == {
        "skipIf", "compare", "unused", "TestCase", "TestCase.assertEqual", "TestCase.assertClose",
        "op_db", "op_db[add]", "op_db[sub]",
    }  # fmt: skip
    for old, new, changed in (
        ('OpInfo("sub", dtypes=floats())', 'OpInfo("sub", dtypes=ints())', {"op_db[sub]"}),
        ('DecorateInfo("x")', 'DecorateInfo("y")', set()),  # skips do not make the op another one
        ('    OpInfo("sub", dtypes=floats()),\n', "", {"op_db", "op_db[sub]"}),
    ):
        after = Prints(take(MemoryTree({**FILES, LIBRARY: PARTS_LIB.replace(old, new)}))).hashes
        differ = {key for key in hashes.keys() | after.keys() if hashes.get(key) != after.get(key)}
        assert differ == {f"{LIBRARY}::{key}" for key in changed}
