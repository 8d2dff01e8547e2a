"""Tests that no class writes: inherited ones, across files; those that loops and factories make; nested classes."""

# ruff: noqa: E501 - programs as strings

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from selector.discover import Discovery, Inventory, take
from selector.discover.family import Place
from selector.model import TestId
from selector.trees import MemoryTree

Discover = Callable[..., Discovery]


def taken(files: dict[str, str]) -> Inventory:
    return take(MemoryTree({path: textwrap.dedent(text) for path, text in files.items()}))


def derived(inventory: Inventory) -> dict[str, str]:
    """id of each test that is not written where its id says -> file and method where it is."""
    return {
        str(one.id).removeprefix("test/"): f"{one.origin.path.removeprefix('test/')}::{one.origin.key}"
        for path in inventory.files
        for one in inventory.known(path).values()
        if one.how != "written"
    }


BASE = """
class Mixin:
    def test_a(self): return self.check()
    def test_b(self): return 2
    def test_gone(self): return 3
    def check(self): return 1
class TestHere(Mixin, TestCase):
    def test_b(self): return 22
    test_gone = None
"""


def test_inherited_tests_in_a_file_and_across_files() -> None:
    inventory = taken(
        {
            "test/base.py": BASE,
            "test/test_from.py": "from base import Mixin as M\nclass TestFrom(M, TestCase):\n    def test_c(self): pass\n",
            "test/test_module.py": "import base\nclass TestModule(base.TestHere): pass\n",
            "test/deep/test_full.py": "from test.base import TestHere\nclass TestFull(TestHere): pass\n",
            "test/test_star.py": "from base import *\nclass TestStar(Mixin): pass\n",
            "test/test_lib.py": (
                "import torch._dynamo.test_case\nclass TestLib(torch._dynamo.test_case.Shared):\n    def test_x(self): pass\n"
            ),
            "torch/_dynamo/test_case.py": "class Shared:\n    def test_shared(self): pass\n",
        }
    )
    assert derived(inventory) == {
        "base.py::TestHere::test_a": "base.py::Mixin.test_a",
        "test_from.py::TestFrom::test_a": "base.py::Mixin.test_a",
        "test_from.py::TestFrom::test_b": "base.py::Mixin.test_b",
        "test_from.py::TestFrom::test_gone": "base.py::Mixin.test_gone",
        "test_module.py::TestModule::test_b": "base.py::TestHere.test_b",
        "test_module.py::TestModule::test_a": "base.py::Mixin.test_a",
        "deep/test_full.py::TestFull::test_b": "base.py::TestHere.test_b",
        "deep/test_full.py::TestFull::test_a": "base.py::Mixin.test_a",
        "test_star.py::TestStar::test_a": "base.py::Mixin.test_a",
        "test_star.py::TestStar::test_b": "base.py::Mixin.test_b",
        "test_star.py::TestStar::test_gone": "base.py::Mixin.test_gone",
        "test_lib.py::TestLib::test_shared": "torch/_dynamo/test_case.py::Shared.test_shared",
    }
    assert inventory.count == 6  # as written under test/: inherited ones do not count again
    found = inventory.find(TestId("test/test_from.py", "TestFrom", "test_a"))
    assert found is not None
    assert found[1].line == 2  # its place in its own file is its class
    assert inventory.derived("test/base.py", "TestHere.test_b") == [
        TestId("test/deep/test_full.py", "TestFull", "test_b"),
        TestId("test/test_module.py", "TestModule", "test_b"),
    ]


def test_bases_that_go_in_a_circle_end() -> None:
    inventory = taken({"test/test_a.py": "class A(B):\n    def test_x(self): pass\nclass B(A): pass\n"})
    assert derived(inventory) == {"test_a.py::B::test_x": "test_a.py::A.test_x"}


TEMPLATE = """
def copy_tests(my_cls, other_cls, suffix, failures=None):
    for name, value in my_cls.__dict__.items():
        if name.startswith("test_"):
            def new_test(self, value=value): return value(self)
            setattr(other_cls, f"{name}_{suffix}", new_test)
class Template:
    def test_a(self): return 1
    def test_b(self): return 2
class CpuTests(TestCase):
    def test_own(self): return 3
copy_tests(Template, CpuTests, "cpu")
"""
FACTORY = """
def make_cls(cls, prefix, suffix, *patches, decorator=None):
    Dummy = type(f"{prefix}{cls.__name__}", cls.__bases__, {})
    for name in dir(cls):
        if name.startswith("test_"):
            fn = getattr(cls, name)
            if not callable(fn):
                setattr(Dummy, name, fn)
                continue
            new_name = f"{name}{suffix}"
            setattr(Dummy, new_name, fn)
        elif not hasattr(Dummy, name):
            setattr(Dummy, name, getattr(cls, name))
    return Dummy
"""
BODIES = "class TestBodies(TestCase):\n    def test_x(self): return 1\n    def test_y(self): return 2\n"


@pytest.mark.parametrize(
    ("code", "made"),
    [
        (
            "for name in ('one', 'two'):\n    setattr(TestT, f'test_{name}_x', make(name))\n",
            {"TestT::test_one_x": "<module>", "TestT::test_two_x": "<module>"},
        ),
        (
            "for name, value in [('one', 1), ('two', 2)]:\n    setattr(TestT, 'test_' + name, make(value))\n",
            {"TestT::test_one": "<module>", "TestT::test_two": "<module>"},
        ),
        (
            "NAMES = ['one']\ndef add(cls):\n    for op in NAMES:\n        name = f'test_{op}'\n        setattr(cls, name, 1)\nadd(TestT)\n",
            {"TestT::test_one": "add"},
        ),
        (
            "def make():\n    class TestInner(TestCase):\n        def test_i(self): pass\n    return TestInner\nTestMade = make()\n",
            {"TestMade::test_i": "make"},
        ),
        (
            "def copied(cls):\n    return type(cls.__name__ + 'Again', cls.__bases__, dict(cls.__dict__))\nTestMore = copied(TestT)\n",
            {"TestMore::test_t": "TestT.test_t"},
        ),
        (
            "def named(cls):\n    made = type('Other' + cls.__name__, (cls,), cls.__dict__.copy())\n    globals()[made.__name__] = made\nfor cls in [TestT]:\n    named(cls)\n",
            {"OtherTestT::test_t": "TestT.test_t"},
        ),
    ],
)  # fmt: skip
def test_loops_and_factories(code: str, made: dict[str, str]) -> None:
    inventory = taken({"test/test_t.py": "class TestT(TestCase):\n    def test_t(self): pass\n" + code})
    found = {key.partition("::")[2]: origin.partition("::")[2] for key, origin in derived(inventory).items()}
    assert found == made
    assert list(inventory.patterns()) == []


def test_a_template_is_copied_with_a_suffix_from_another_file_too() -> None:
    other = """
    from test_template import Template, copy_tests
    import test_template
    class GpuTests(TestCase): pass
    copy_tests(Template, GpuTests, GPU_TYPE)
    class MyTests(TestCase): pass
    test_template.copy_tests(test_template.Template, MyTests, suffix="mine")
    """
    inventory = taken({"test/test_template.py": TEMPLATE, "test/test_other.py": other})
    assert derived(inventory) == {
        "test_template.py::CpuTests::test_a_cpu": "test_template.py::Template.test_a",
        "test_template.py::CpuTests::test_b_cpu": "test_template.py::Template.test_b",
        "test_other.py::MyTests::test_a_mine": "test_template.py::Template.test_a",
        "test_other.py::MyTests::test_b_mine": "test_template.py::Template.test_b",
    }
    # a name that only running the code tells is a pattern, with its place
    assert [(path, p.cls, p.name) for path, p in inventory.patterns()] == [
        ("test/test_other.py", "GpuTests", "test_*_*")
    ]


def test_a_factory_in_the_library_and_one_that_hands_on_to_it() -> None:
    module = """
    from torch._dynamo.testing import make_cls
    import test_bodies
    def make_dynamic(cls):
        made = make_cls(cls, "Dynamic", "_dynamic", (config, "flag", True))
        globals()[made.__name__] = made
        return made
    tests = [test_bodies.TestBodies]
    for test in tests:
        make_dynamic(test)
    """
    onward = """
    from torch._dynamo.testing import make_cls
    from test_bodies import TestBodies
    def through(cls):
        return make_cls(cls, "Through", SUFFIX)
    SUFFIX = "_s"
    TestThrough = through(TestBodies)
    """
    inventory = taken(
        {
            "torch/_dynamo/testing.py": FACTORY,
            "test/test_bodies.py": BODIES,
            "test/test_dynamic.py": module,
            "test/test_through.py": onward,
        }
    )
    assert derived(inventory) == {
        "test_dynamic.py::DynamicTestBodies::test_x_dynamic": "test_bodies.py::TestBodies.test_x",
        "test_dynamic.py::DynamicTestBodies::test_y_dynamic": "test_bodies.py::TestBodies.test_y",
        "test_through.py::TestThrough::test_x_s": "test_bodies.py::TestBodies.test_x",
        "test_through.py::TestThrough::test_y_s": "test_bodies.py::TestBodies.test_y",
    }


@pytest.mark.parametrize(
    "code",
    [
        "def f(cls):\n    f(cls)\n    setattr(cls, 'test_x', 1)\nf(TestT)\n",
        "names = [" + "'a'," * 500 + "]\n" + "for a in names:\n  for b in names:\n    for c in names:\n      setattr(TestT, 'test_' + a + b + c, 1)\n",
        "def f(cls):\n    return f(type('X', (), {}))\nTestX = f(TestT)\n",
        "setattr(TestT, name(), 1)\nglobals()[x] = y\n[1, 2][0] = 3\nfor a.b in c: setattr(TestT, 'test_x', a)\n",
    ],
)  # fmt: skip
def test_code_that_never_ends_or_makes_no_sense_is_bounded(code: str) -> None:
    inventory = taken({"test/test_t.py": "class TestT(TestCase):\n    def test_t(self): pass\n" + code})
    assert sum(1 for _ in inventory.tests()) < 1_000


def test_nested_classes_are_known_and_not_run_by_themselves() -> None:
    inventory = taken(
        {
            "test/test_n.py": """
            class Space:
                class Base(TestCase):
                    limit = 1
                    def test_in(self): return self.limit
                    def helper(self): return 2
            class TestOut(Space.Base):
                def test_out(self): return self.helper()
                def test_program(self):
                    class TestInside(TestCase):
                        def test_inside(self): pass
            """
        }
    )
    assert [str(test) for test, _, _ in inventory.tests()] == [
        "test/test_n.py::TestOut::test_out",
        "test/test_n.py::TestOut::test_program",
        "test/test_n.py::TestOut::test_in",
    ]
    assert inventory.files["test/test_n.py"].tests == 4  # as written, wherever
    reach = inventory.reach("test/test_n.py").test("TestOut", "test_in")
    assert {"Space.Base.test_in", "Space.Base"} <= reach
    assert "Space.Base.helper" in inventory.reach("test/test_n.py").test("TestOut", "test_out")


@pytest.mark.parametrize(
    ("path", "old", "new", "reached"),
    [
        ("test/base.py", "return 2\n", "return 20\n", {"TestFrom.test_b": "edited-test"}),
        ("test/base.py", "return 1\n", "return 10\n", {"TestHere.test_a": "helper", "TestFrom.test_a": "helper-imported"}),
        ("test/base.py", "return 22", "return 23", {"TestHere.test_b": "edited-test"}),
        ("test/test_template.py", "return 1\n", "return 10\n", {"CpuTests.test_a_cpu": "edited-test"}),
    ],
)  # fmt: skip
def test_changes_reach_tests_that_are_inherited_or_made(
    discovered: Discover, path: str, old: str, new: str, reached: dict[str, str]
) -> None:
    also = {
        "test/base.py": BASE,
        "test/test_template.py": TEMPLATE,
        "test/test_from.py": "from base import Mixin\nclass TestFrom(Mixin, TestCase): pass\n",
    }
    text = also.pop(path)
    assert text.count(old) == 1
    found = discovered({path: text}, {path: text.replace(old, new)}, also=also)
    by_test = {f"{i.test.cls}.{i.test.method}": i.codes[0] for i in found.impacts}
    # the base class is no test case, yet a runner decides that; those that inherit are what counts here
    assert {name: code for name, code in by_test.items() if not name.startswith(("Mixin.", "Template."))} == reached
    assert not found.widened


def test_what_an_inherited_test_calls_is_the_inheriting_classes() -> None:
    inventory = taken(
        {
            "test/base.py": "class Base:\n    def test_a(self): return self.check()\n    def check(self): return 1\n",
            "test/test_o.py": "from base import Base\nclass TestO(Base):\n    def check(self): return torch.cuda.sync()\n",
        }
    )
    test = TestId("test/test_o.py", "TestO", "test_a")
    assert ("test/test_o.py", frozenset({"TestO", "TestO.check", "Base"})) in inventory.reached(test)
    assert {"cuda", "check"} <= inventory.words(test)
    assert inventory.known(test.file)[test].origin == Place("test/base.py", "Base.test_a")
