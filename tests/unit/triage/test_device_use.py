# ruff: noqa: E501
"""Whether a test's device ever comes to run anything: a row a way of using it, or of not using it."""

from __future__ import annotations

import textwrap

import pytest

from selector.discover import MemoryCache, take
from selector.model import TestId
from selector.trees import MemoryTree
from selector.triage.device_use import FORMAT, Use, from_bytes, to_bytes, uses_of
from selector.triage.engagement import Uses, uses_device

FILE = "test/test_x.py"

ROWS = [
    # body of test_a(self, device, dtype), whether its device is used
    ("torch.ones(2, device=device)", True),
    ("torch.ones(2).to(device)", True),
    # what upstream names like a builtin runs all the same
    ("torch.range(0, 10, device=device)", True),
    ("torch.combinations(make(device))", True),
    ("list(range(len(device)))", False),
    ("torch.ones(2, device=torch.device(device))", True),
    ("make = partial(make_tensor, device=device)", True),
    ("x = device\n        torch.ones(2, device=x)", True),
    ("for one in (device, 'cpu'):\n            torch.ones(2, device=one)", True),
    ("[torch.ones(2, device=d) for d in ['cpu', device]]", True),
    ("run = lambda: torch.ones(2, device=device)", True),
    ("def inner(d):\n            return torch.ones(2, device=d)\n        inner(device)", True),
    ("with torch.device(device):\n            torch.ones(2)", True),
    ("torch.ones(2, device=f'{device}:0')", True),
    ("torch.ones(2, device=device if True else 'cpu')", True),
    ("torch.ones(2, device=self.device_type)", True),
    ("torch.ones(2, device=self.get_primary_device())", True),
    ("torch.ones(2)", False),
    ("torch.ones(2, device='cuda')", False),
    ("self.assertEqual(torch.device(device).type, 'cpu')", False),
    ("kind = torch.device(device).type", False),
    ("if device == 'cpu':\n            torch.ones(2, device=device)", False),
    ("if torch.device(device).type == 'cuda':\n            torch.ones(2, device=device)", False),
    ("if self.device_type in ('cpu', 'cuda'):\n            torch.ones(2, device=device)", False),
    ("if self.device_type != 'cpu':\n            torch.ones(2, device=device)", True),
    ("if 'cuda' == self.device_type:\n            torch.ones(2, device=device)\n        else:\n            torch.ones(3, device=device)", True),
    ("if device.startswith('cuda'):\n            torch.ones(2, device=device)", False),
    ("if torch.cuda.is_available():\n            torch.ones(2, device=device)", False),
    ("if self.device_type != 'cuda':\n            return\n        torch.ones(2, device=device)", False),
    ("if self.device_type != 'cuda':\n            self.skipTest('x')\n        torch.ones(2, device=device)", False),
    ("if not self.device_type == 'cuda' or slow():\n            raise X\n        torch.ones(2, device=device)", False),
    ("if self.device_type == 'cpu' or big():\n            torch.ones(2, device=device)", True),
    ("if self.device_type == 'spyre':\n            torch.ones(2, device=device)", True),
    ("if self.device_type == anything:\n            torch.ones(2, device=device)", True),
    ("self.helped(device)", True),
    ("self.idle(device)", False),
    ("self.through(device)", True),
    ("self.named_otherwise(device)", True),
    ("self.from_elsewhere(device)", True),
    ("self.own_device()", True),
    ("self.helped('cpu')", False),
    ("function(device)", True),
    ("idle_function(device)", False),
    ("imported(device)", True),
    ("try:\n            torch.ones(2, device=device)\n        except RuntimeError:\n            pass", True),
    ("while True:\n            torch.ones(2, device=device)", True),
]  # fmt: skip

HELPERS = """
import torch
from somewhere import imported

def function(device):
    return torch.ones(2, device=device)

def idle_function(device):
    return torch.ones(2)

class TestX(TestCase):
    def helped(self, device):
        torch.ones(2, device=device)

    def idle(self, device):
        torch.ones(2)

    def through(self, device):
        self.helped(device)

    def named_otherwise(self, where):
        torch.ones(2, device=where)

    def own_device(self):
        torch.ones(2, device=self.device_type)

    def test_a(self, device, dtype):
        {body}

instantiate_device_type_tests(TestX, globals())
"""


def answer(code: str, test: str = "test_a", cls: str = "TestX", **others: str) -> bool | None:
    tree = MemoryTree({FILE: code, **{f"test/{name}.py": text for name, text in others.items()}})
    inventory = take(tree)
    return uses_device(TestId(FILE, cls, test), inventory, Uses(tree.read, inventory.ids))


@pytest.mark.parametrize(("body", "used"), ROWS)
def test_what_is_made_from_the_device(body: str, used: bool) -> None:
    assert answer(HELPERS.replace("{body}", body)) is used


def test_a_test_without_a_device_uses_none() -> None:
    assert answer("class TestX(TestCase):\n    def test_a(self): torch.ones(2)\n") is False


def test_fixtures_that_use_the_device_count_for_every_test() -> None:
    code = """
    class TestX(TestCase):
        def setUp(self):
            self.x = torch.ones(2, device=self.device_type)
        def test_a(self, device):
            self.x.add_(1)
    """
    assert answer(textwrap.dedent(code)) is True


@pytest.mark.parametrize(("inner", "used"), [("op.sample_inputs(device)", True), ("op.sample_inputs()", False)])
def test_a_decorator_of_the_file_may_make_the_inputs(inner: str, used: bool) -> None:
    code = f"""
    def with_inputs(test):
        def wrapped(self, device, op):
            for one in {inner}:
                test(self, one)
        return wrapped
    class TestX(TestCase):
        @with_inputs
        def test_a(self, device, inputs):
            inputs.add(1)
    """
    assert answer(textwrap.dedent(code)) is used
    as_class = f"""
    class with_inputs(_TestParametrizer):
        def _parametrize_test(self, test, generic_cls, device_cls):
            def wrapped(self, device, op):
                test(self, {inner})
            yield wrapped
    class TestX(TestCase):
        @with_inputs()
        def test_a(self, device, inputs):
            inputs.add(1)
    """
    assert answer(textwrap.dedent(as_class)) is used


def test_an_inherited_test_is_read_where_it_is_written() -> None:
    base = "class Base(TestCase):\n    def test_a(self, device): {}\n"
    own = "from test_base import Base\nclass TestX(Base): pass\n"
    assert answer(own, test_base=base.format("torch.ones(2, device=device)")) is True
    assert answer(own, test_base=base.format("torch.ones(2)")) is False


def test_what_is_not_known_is_said() -> None:
    tree = MemoryTree({FILE: "class TestX(TestCase):\n    def test_a(self, device): pass\n"})
    inventory = take(tree)

    def gone(path: str) -> bytes:
        raise KeyError(path)

    assert uses_device(TestId(FILE, "TestX", "test_a"), inventory, Uses(gone, inventory.ids)) is None
    assert uses_device(TestId(FILE, "TestX", "test_b"), inventory, Uses(tree.read, inventory.ids)) is None


def test_uses_are_kept_by_content_and_damage_is_mended() -> None:
    tree = MemoryTree({FILE: HELPERS.replace("{body}", "torch.ones(2, device=device)")})
    inventory, cache = take(tree), MemoryCache()
    first = Uses(tree.read, inventory.ids, cache).of(FILE)

    def never(path: str) -> bytes:
        raise AssertionError(f"{path} is read again")

    assert first
    assert Uses(never, inventory.ids, cache).of(FILE) == first
    for damaged in (b"", b"[]", b'{"f": 1}', b"\xff"):
        cache.put(f"{FORMAT}-{inventory.ids[FILE]}", damaged)
        assert Uses(tree.read, inventory.ids, cache).of(FILE) == first


@pytest.mark.parametrize("source", [b"def f(:", b"\x00", b"(" * 5000])
def test_of_a_source_that_cannot_be_parsed_nothing_is_known(source: bytes) -> None:
    assert uses_of(source) is None
    assert Uses(lambda _: source, {FILE: "1"}, MemoryCache()).of(FILE) is None


def test_a_record_from_before_the_change_is_not_read_from_what_the_file_is_now() -> None:
    before = MemoryTree({FILE: HELPERS.replace("{body}", "torch.ones(2, device=device)")})
    now = MemoryTree({FILE: HELPERS.replace("{body}", "pass")})
    test = TestId(FILE, "TestX", "test_a")
    assert uses_device(test, take(before), Uses(now.read, now.paths())) is None
    assert uses_device(test, take(now), Uses(now.read, now.paths())) is False


def test_the_table_goes_to_bytes_and_back() -> None:
    found = uses_of(HELPERS.replace("{body}", "self.helped(device)").encode())
    assert found is not None
    assert found["TestX.test_a"] == Use(takes=True, hands=("self.helped",))
    assert (found["function"].direct, found["idle_function"].direct) == (True, False)
    assert from_bytes(to_bytes(found)) == {key: use for key, use in found.items() if use != Use()}
    with pytest.raises(ValueError, match="not a table of uses"):
        from_bytes(b'{"f": 3}')
