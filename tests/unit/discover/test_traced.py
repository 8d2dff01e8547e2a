"""What tests were seen to run: it reaches them, limited to their ops, maps what other rules cannot, and is bounded."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from selector.discover import Discovery, Hints, discover, take
from selector.discover.fingerprints import Prints
from selector.discover.traced import Followed, Trace, TraceError, Unit, joined, minor
from selector.model import Change, OpDatabase, TestId
from selector.trees import MemoryTree, diff_trees

NAMED = "test/test_generic.py"
HIDDEN = "torch/hidden.py"
KERNEL = "aten/src/ATen/native/Mul.cpp"
TESTS = """
from torch.testing._internal.common_methods_invocations import op_db, unary_ufuncs
class TestGeneric(TestCase):
    @ops(unary_ufuncs)
    def test_unary(self, device, dtype, op): pass
    def test_plain(self, device): pass
    def test_other(self, device): pass
instantiate_device_type_tests(TestGeneric, globals())
"""
UNARY, PLAIN, OTHER = (TestId(NAMED, "TestGeneric", f"test_{name}") for name in ("unary", "plain", "other"))
UNITS = (Unit(PLAIN, None, 1.0), Unit(UNARY, "logit", 2.0), Unit(UNARY, "sin", 3.0), Unit(OTHER, None, 94.0))
SOURCE = "def deep(x):\n    return x\nclass Held:\n    def go(self):\n        return 1\nLIMIT = 1\n"


def found(opdb: OpDatabase, trace: Trace | None, path: str, text: str, old: str, new: str) -> Discovery:
    assert text.count(old) == 1
    base = MemoryTree({NAMED: TESTS, path: text})
    head = MemoryTree({NAMED: TESTS, path: text.replace(old, new)})
    change = Change("a" * 40, "b" * 40, diff_trees(base, head), "", "")
    return discover(base, head, change, opdb, hints=Hints(trace=trace))


def traced(found: Discovery) -> dict[TestId, frozenset[str]]:
    return {one.test: one.ops for one in found.impacts if "traced" in one.codes}


def test_a_function_that_no_rule_can_follow_is_mapped_by_who_ran_it(opdb: OpDatabase) -> None:
    edit = (HIDDEN, SOURCE, "return x", "return +x")
    assert found(opdb, None, *edit).widened
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"deep": (0, 1)}})
    seen = found(opdb, trace, *edit)
    assert traced(seen) == {PLAIN: frozenset(), UNARY: frozenset({"logit"})}
    assert not seen.widened
    fact = next(one.evidence[0] for one in seen.impacts if one.test == PLAIN)
    assert (fact.kind, fact.path, fact.symbol, fact.line) == ("trace", HIDDEN, "deep", 1)
    assert fact.detail == "ran deep in a trusted run"


def test_a_method_that_ran_maps_its_class(opdb: OpDatabase) -> None:
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"Held.go": (2,)}})
    seen = found(opdb, trace, HIDDEN, SOURCE, "return 1", "return 2")
    assert traced(seen) == {UNARY: frozenset({"sin"})}
    assert not seen.widened


@pytest.mark.parametrize(
    ("functions", "old", "new"),
    [
        ({HIDDEN: {"deep": (0,)}}, "LIMIT = 1", "LIMIT = 2"),  # a constant is no function: nobody sees who reads it
        ({HIDDEN: {"deep": ()}}, "return x", "return +x"),  # known, and nobody ran it
        ({HIDDEN: {"deeper": (0,)}}, "return x", "return +x"),
        ({"torch/other.py": {"deep": (0,)}}, "return x", "return +x"),
    ],
)
def test_what_was_not_seen_to_run_still_widens(
    opdb: OpDatabase, functions: dict[str, dict[str, tuple[int, ...]]], old: str, new: str
) -> None:
    seen = found(opdb, Trace("2.13.0", UNITS, functions), HIDDEN, SOURCE, old, new)
    assert traced(seen) == {}
    assert seen.widened


def test_one_changed_function_that_ran_does_not_stand_for_another(opdb: OpDatabase) -> None:
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"deep": (0,)}})
    text = SOURCE.replace("return x", "return +x")
    base, head = (
        MemoryTree({NAMED: TESTS, HIDDEN: SOURCE}),
        MemoryTree({NAMED: TESTS, HIDDEN: text.replace("= 1", "= 2")}),
    )
    change = Change("a" * 40, "b" * 40, diff_trees(base, head), "", "")
    seen = discover(base, head, change, opdb, hints=Hints(trace=trace))
    assert traced(seen) == {PLAIN: frozenset()}
    assert seen.widened


@pytest.mark.parametrize("function", ["mul_out", "mul_out_cpu", "mul"])
def test_a_kernel_reaches_who_ran_its_operator(opdb: OpDatabase, function: str) -> None:
    text = f"Tensor {function}(const Tensor& s) {{\n  return s;\n}}\n"
    trace = Trace("2.13.0", UNITS, {}, {"mul": (0, 2)})
    seen = found(opdb, trace, KERNEL, text, "return s", "return +s")
    assert set(traced(seen)) == {PLAIN, UNARY}
    assert seen.widened  # what else the file's functions are for is not known: an operator that ran maps no file
    assert traced(found(opdb, Trace("2.13.0", UNITS, {}, {"div": (0, 2)}), KERNEL, text, "return s", "return +s")) == {}


def test_of_what_costs_too_much_the_cheapest_run(opdb: OpDatabase) -> None:
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"deep": (0, 1, 2, 3)}})
    seen = found(opdb, trace, HIDDEN, SOURCE, "return x", "return +x")
    assert traced(seen) == {PLAIN: frozenset(), UNARY: frozenset({"logit", "sin"})}  # 6 of the 100 s; OTHER takes 94
    assert any("one of 3 of 4 that do" in fact.detail for one in seen.impacts for fact in one.evidence)


def test_a_test_that_is_gone_is_not_reached(opdb: OpDatabase) -> None:
    gone = Unit(TestId(NAMED, "TestGeneric", "test_gone"), None, 0.1)
    trace = Trace("2.13.0", (*UNITS, gone), {HIDDEN: {"deep": (0, 4)}})
    assert set(traced(found(opdb, trace, HIDDEN, SOURCE, "return x", "return +x"))) == {PLAIN}


def test_what_a_test_ran_when_it_was_another_says_nothing(opdb: OpDatabase) -> None:
    prints = Prints(take(MemoryTree({NAMED: TESTS, HIDDEN: SOURCE})))
    tests = {test: Followed(prints.own(test).deep, "2026-11-29") for test in (PLAIN, UNARY, OTHER)}
    edit = (HIDDEN, SOURCE, "return x", "return +x")
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"deep": (0, 1)}}, {}, tests, 3)
    seen = found(opdb, trace, *edit)
    assert set(traced(seen)) == {PLAIN, UNARY}
    assert not seen.widened
    details = {fact.detail for one in seen.impacts for fact in one.evidence}
    assert "ran deep in a trusted run of 2026-11-29 on torch 2.13.0" in details
    tests[PLAIN] = Followed("0" * 32, "2026-11-29")
    assert set(traced(found(opdb, replace(trace, tests=tests), *edit))) == {UNARY}
    tests[UNARY] = tests[PLAIN]
    stale = found(opdb, replace(trace, tests=tests), *edit)
    assert traced(stale) == {}
    assert stale.widened, "nobody who is known now was seen to run it"


@pytest.mark.parametrize(("of", "widened"), [(0, False), (3, False), (4, True)])
def test_a_table_of_a_part_adds_tests_and_keeps_nothing_from_widening(opdb: OpDatabase, of: int, widened: bool) -> None:
    tests = {test: Followed("", "") for test in (PLAIN, UNARY, OTHER)}
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"deep": (0,)}}, {}, tests, of)
    seen = found(opdb, trace, HIDDEN, SOURCE, "return x", "return +x")
    assert set(traced(seen)) == {PLAIN}
    assert bool(seen.widened) is widened


def test_tables_are_put_together_and_the_later_one_of_a_test_stands_alone() -> None:
    first = Trace(
        "2.13.0", (Unit(PLAIN, None, 1.0), Unit(UNARY, "sin", 2.0)), {HIDDEN: {"deep": (0, 1), "old": (0,)}},
        {"mul": (0, 1)}, {PLAIN: Followed("a", "2026-11-01"), UNARY: Followed("b", "2026-11-01")},
    )  # fmt: skip
    idle = {OTHER: Followed("c", "2026-11-02")}
    second = Trace(
        "2.13.1", (Unit(PLAIN, None, 3.0),), {HIDDEN: {"deep": (0,), "new": (0,)}}, {"add": (0,)},
        {PLAIN: Followed("d", "2026-11-02"), **idle},
    )  # fmt: skip
    whole = joined([first, second], "2.13.1", 9)
    assert whole == Trace(
        "2.13.1", (Unit(PLAIN, None, 3.0), Unit(UNARY, "sin", 2.0)), {HIDDEN: {"deep": (0, 1), "new": (0,)}},
        {"mul": (1,), "add": (0,)}, {PLAIN: Followed("d", "2026-11-02"), UNARY: Followed("b", "2026-11-01"), **idle}, 9,
    )  # fmt: skip
    assert Trace.from_bytes(whole.to_bytes()) == whole
    assert joined([whole], "2.13.1", 9) == whole
    assert joined([], "2.13.1", 9).units == ()


def test_a_torch_is_known_by_its_minor_version() -> None:
    assert [minor(torch) for torch in ("2.13.0", "2.13.1+cpu", "2.14.0a0+git12", "")] == ["2.13", "2.13", "2.14", ""]


def test_a_trace_that_unpacks_to_too_much_is_not_unpacked() -> None:
    data = gzip.compress(b" " * 100_000)
    with pytest.raises(TraceError, match="more than 1000 bytes"):
        Trace.from_bytes(data, 1000)


def test_a_trace_is_read_as_it_was_written() -> None:
    trace = Trace("2.13.0", UNITS, {HIDDEN: {"deep": (0, 1)}}, {"mul": (3,)})
    assert Trace.from_bytes(trace.to_bytes()) == trace
    assert trace.to_bytes() == trace.to_bytes()


GOOD = {"format": 1, "torch": "2.13.0", "units": [[str(PLAIN), None, 1.0]], "functions": {}, "ops": {}}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"plain", "not gzip"),
        (gzip.compress(b"{}" * 5000, mtime=0)[:20], "cut off"),
        (gzip.compress(b"{", mtime=0), "Invalid JSON"),
        ({**GOOD, "format": 2}, "format 2 is not 1"),
        ({**GOOD, "ops": {"mul": [1]}}, "mul names unit 1 of 1"),
        ({**GOOD, "ops": {"mul": [-1]}}, "ops.mul.0"),
        ({**GOOD, "units": [[str(PLAIN), None, -1]]}, "units.0.2"),
        ({**GOOD, "units": [["no test", None, 1]]}, "no test"),
        ({**GOOD, "more": 1}, "more"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_no_trace_says_where(value: object, words: str) -> None:
    data = value if isinstance(value, bytes) else gzip.compress(json.dumps(value).encode())
    with pytest.raises(TraceError, match=words):
        Trace.from_bytes(data)
