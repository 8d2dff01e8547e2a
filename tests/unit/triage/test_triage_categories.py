"""What a test is about: a row a category of the table, and the order in which they are asked."""

from __future__ import annotations

import pytest

from selector.configs import Capability
from selector.discover import Impact, take
from selector.discover.opindex import OpIndex
from selector.model import TestId
from selector.trees import MemoryTree
from selector.triage.categories import topic_of
from selector.triage.subject import Category, Subject

SHEET = Capability("s", "spyre", frozenset({"float32"}), None, frozenset(), {}, {}, {})

ROWS = [
    # path, class, method, decorator, body, category
    ("test/distributed/test_x.py", "TestX", "test_a", "", "pass", "distributed"),
    ("test/quantization/core/test_x.py", "TestX", "test_a", "", "pass", "quantised"),
    ("test/test_sparse.py", "TestX", "test_a", "", "pass", "sparse"),
    ("test/test_x.py", "TestX", "test_sparse_add", "", "torch.add(1)", "sparse"),
    ("test/profiler/test_x.py", "TestX", "test_a", "", "pass", "profiler"),
    ("test/inductor/test_x.py", "TestX", "test_view", "", "pass", "compile"),
    ("test/test_serialization.py", "TestX", "test_a", "", "pass", "serialization"),
    ("test/test_x.py", "TestX", "test_save_and_load", "", "pass", "serialization"),
    ("test/test_x.py", "TestX", "test_a", "@dtypes(torch.cfloat, torch.cdouble)", "pass", "complex"),
    ("test/test_x.py", "TestX", "test_a", "@ops(op_db, allowed_dtypes=(torch.complex64,))", "pass", "complex"),
    ("test/test_x.py", "TestX", "test_randperm", "", "pass", "random"),
    ("test/test_indexing.py", "TestX", "test_a", "", "pass", "indexing"),
    ("test/test_x.py", "TestX", "test_index_put", "", "pass", "indexing"),
    ("test/test_x.py", "TestX", "test_backward_twice", "", "pass", "autograd"),
    ("test/test_tensor_creation_ops.py", "TestX", "test_a", "", "pass", "creation"),
    ("test/test_view_ops.py", "TestX", "test_a", "", "pass", "views-and-layout"),
    ("test/test_x.py", "TestViewOps", "test_a", "", "pass", "views-and-layout"),
    ("test/test_x.py", "TestX", "test_pinned_memory", "", "pass", "memory"),
    ("test/nn/test_x.py", "TestX", "test_a", "", "pass", "modules"),
    ("test/test_x.py", "TestX", "test_a", "@modules(module_db)", "pass", "modules"),
    ("test/test_testing.py", "TestX", "test_a", "", "pass", "infrastructure"),
    ("test/test_x.py", "TestX", "test_add", "", "self.assertEqual(torch.ones(2), 1)", "op-correctness"),
    ("test/test_x.py", "TestX", "test_a", "@ops(op_db)", "pass", "op-correctness"),
    ("test/test_x.py", "TestX", "test_repr", "", "str(torch)", "front-end-only"),
]  # fmt: skip


def topic(path: str, cls: str, method: str, decorator: str, body: str) -> Category:
    code = f"class {cls}(TestCase):\n    {decorator or 'x = 1'}\n    def {method}(self, device):\n        {body}\n"
    inventory = take(MemoryTree({path: code}))
    test = TestId(path, cls, method)
    found = inventory.find(test)
    assert found is not None
    return topic_of(Subject(Impact(test, (), (), 0.5), *found, inventory, SHEET, OpIndex(None)))


@pytest.mark.parametrize(("path", "cls", "method", "decorator", "body", "category"), ROWS)
def test_topics(path: str, cls: str, method: str, decorator: str, body: str, category: str) -> None:
    assert topic(path, cls, method, decorator, body) == category


def test_every_topic_has_a_row() -> None:
    said_by_rules = {Category.CUDA_ONLY, Category.CPU_ONLY, Category.OTHER_BACKEND}
    assert {row[-1] for row in ROWS} == {category.value for category in set(Category) - said_by_rules}
