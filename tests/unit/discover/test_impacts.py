# ruff: noqa: E501
"""From a change of torch's Python to the tests it reaches; what holds for every change. Each case is one that a person could make."""

from __future__ import annotations

from impact_cases import ALSO, LIB, LIB_PATH, PLAIN, REFS, Discover, codes

from selector.discover import MemoryCache
from selector.discover.findings import FILE_CODES, IMPACT_CODES
from selector.model import OpDatabase, TestId


def test_importers_users_and_the_area_of_a_module(discovered: Discover, opdb: OpDatabase) -> None:
    module = "class Adam:\n    def step(self): return 1\ndef _single(): return 2\ndef adam(): return _single()\n"
    also = {
        **ALSO,
        "torch/optim/__init__.py": "from torch.optim.adam import Adam as Adam\n",
        "test/test_i.py": "from torch.optim import Adam\nclass TestI(TestCase):\n    def test_i(self): Adam()\n    def test_no(self): pass\n",
        "test/test_n.py": "import torch\nclass TestN(TestCase):\n    def test_n(self): torch.optim.Adam()\n",
        "test/optim/test_o.py": "class TestO(TestCase):\n    def test_o(self): pass\n",
    }
    path = "torch/optim/adam.py"
    found = discovered({path: module}, {path: module.replace("return 1", "return 3")}, also=also, opdb=opdb)
    assert codes(found) == {
        "TestI.test_i": ("import",),
        "TestN.test_n": ("name-use",),
        "TestO.test_o": ("area",),
    }
    private = discovered({path: module}, {path: module.replace("return 2", "return 4")}, also=also, opdb=opdb)
    assert private.widened, "adam() is used by no test: what it reaches is not known"


def test_a_module_class_reaches_the_tests_that_draw_modules(discovered: Discover, opdb: OpDatabase) -> None:
    test = """
class TestMods(TestCase):
    @modules(module_db)
    def test_all(self, device, dtype, module_info, training): pass
    @modules([m for m in module_db if m.name in ("nn.ReLU",)])
    def test_relu(self, device, dtype, module_info, training): pass
"""
    path = "torch/nn/modules/linear.py"
    found = discovered(
        {path: "class Linear:\n    a = 1\n"},
        {path: "class Linear:\n    a = 2\n"},
        also={"test/test_m.py": test},
        opdb=opdb,
    )
    assert codes(found) == {"TestMods.test_all": ("module-use",)}


def test_the_same_change_gives_the_same_answer_with_and_without_a_cache(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/_refs/__init__.py"
    sides = {path: REFS, LIB_PATH: LIB}, {path: REFS.replace("return a\n@", "return +a\n@"), LIB_PATH: LIB + "x = 1\n"}
    cache = MemoryCache()
    runs = [discovered(*sides, also=ALSO, opdb=opdb, cache=c) for c in (None, cache, cache)]
    assert runs[0].impacts == runs[1].impacts == runs[2].impacts
    assert runs[0].decisions == runs[1].decisions == runs[2].decisions


def test_every_code_that_appears_is_declared(discovered: Discover, opdb: OpDatabase) -> None:
    found = discovered(
        {"setup.py": "a", "test/test_plain.py": PLAIN}, {"test/test_plain.py": "x = ("}, also=ALSO, opdb=opdb
    )
    assert {d.code for d in found.decisions} <= FILE_CODES | set(IMPACT_CODES)
    assert all(TestId.parse(str(i.test)) == i.test for i in found.impacts)
