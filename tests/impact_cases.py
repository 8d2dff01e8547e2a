"""Test files and sources of upstream's shape, and readers of what discovery found: for the tests of impacts."""

from __future__ import annotations

from collections.abc import Callable

from selector.discover import Discovery

Discover = Callable[..., Discovery]

GENERIC = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops, dtypes
from torch.testing._internal.common_methods_invocations import op_db, python_ref_db, unary_ufuncs
class TestGeneric(TestCase):
    @ops(python_ref_db)
    def test_refs(self, device, dtype, op): pass
    @ops(unary_ufuncs)
    def test_unary(self, device, dtype, op): pass
    @ops([op for op in op_db if op.name in ("add", "sum")])
    def test_two(self, device, dtype, op): pass
    @ops(modified(op_db))
    def test_unclear(self, device, dtype, op): pass
    def test_calls(self, device):
        torch.special.logit(torch.ones(2, device=device))
    def test_logit_by_name(self, device): pass
    def test_else(self, device):
        torch.zeros(2, device=device)
instantiate_device_type_tests(TestGeneric, globals())
"""
PLAIN = """
import torch
class TestPlain(TestCase):
    def test_nothing(self): pass
"""
ALSO = {"test/test_generic.py": GENERIC, "test/test_plain.py": PLAIN}
LIB = """
def skipIfFoo(fn): return fn
def make(n): return n
class TestCase:
    def setUp(self): pass
    def assertEqual(self, a, b): return compare(a, b)
    def assertNothing(self): pass
def compare(a, b): return a == b
"""
LIB_PATH = "torch/testing/_internal/common_utils.py"
REFS = """
__all__ = ["logit", "add"]
def _helper(a): return a
@register_decomposition(aten.logit)
@out_wrapper()
def logit(self, eps=None):
    return _helper(self)
@register_decomposition(aten.add)
def add(a, b):
    return a
def orphan(x): return x
"""


def codes(found: Discovery) -> dict[str, tuple[str, ...]]:
    return {f"{i.test.cls}.{i.test.method}": i.codes for i in found.impacts}


def about(found: Discovery, subject: str) -> list[tuple[str, str]]:
    return [(d.verdict, d.code) for d in found.decisions if d.subject == subject]
