"""Failures with one cause are one group, and others are not."""

from selector.model import Cause, Outcome, TestId, VariantResult
from selector.verify.causes import frame_of, group, normalised, representatives, signature, stack_of

TEST = TestId("test/test_x.py", "TestX", "test_a")
REFS = "ValueError: weights of {0} have no device 0x7f3{1}\n(at torch/_refs/__init__.py:{2}, from test/test_x.py:9)"


def result(message: str, variant: str = "test_a_spyre") -> VariantResult:
    return VariantResult(TEST, variant, Outcome.FAILED, message=message)


def cause(key: str, kind: str = "regression") -> Cause:
    return Cause(key, TEST, kind, Outcome.FAILED, "cut short", (), (), "")  # type: ignore[arg-type]


def test_what_varies_from_variant_to_variant_is_taken_out() -> None:
    a = normalised("Expected torch.float16 of size (3, 4) but got 1.5e-3 at /tmp/x1/y in test_a_spyre_float16")
    b = normalised("Expected torch.int8 of size (7,) but got -2 at /tmp/x2/z/y in test_b_spyre_int8")
    assert a == b == "Expected DTYPE of size NUMBERS but got N at PATH in TEST"
    assert normalised("Expected a float") != normalised("Expected a tensor")
    assert normalised(None) == ""


def test_the_place_is_upstreams_own_and_not_where_it_was_noticed() -> None:
    message = "boom\n(at torch/testing/_internal/common_utils.py:12, from torch/_refs/__init__.py:5, from test/a.py:1)"
    assert stack_of(message)[0] == "torch/testing/_internal/common_utils.py:12"
    assert frame_of(message) == "torch/_refs/__init__.py:5"
    assert frame_of("no stack (at all)") == ""


def test_groups_are_of_one_kind_message_and_place() -> None:
    one, two = REFS.format("float16", "a", 5), REFS.format("float32", "b", 5)
    elsewhere = REFS.format("float32", "b", 77)
    groups = group([(cause("a"), one), (cause("b"), two), (cause("c"), elsewhere), (cause("d", "flaky"), one)])
    assert [g.keys for g in groups] == [("a", "b"), ("c",), ("d",)]
    assert groups[0].frame == "torch/_refs/__init__.py:5"
    assert groups[0].title == "ValueError: weights of DTYPE have no device ADDRESS"
    assert len({g.id for g in groups}) == 3


def test_a_signature_survives_that_lines_move_and_not_another_file() -> None:
    base = result(REFS.format("float16", "a", 5))
    assert signature(base) == signature(result(REFS.format("float32", "c", 99)))
    assert signature(base) != signature(result(REFS.format("float16", "a", 5).replace("_refs", "_meta")))


def test_representatives_are_of_every_cause_before_a_second_of_one() -> None:
    many = [result("one failed", f"v{i}") for i in range(5)] + [result("two broke", "w"), result("three died", "x")]
    assert [r.variant for r in representatives(many, 4)] == ["v0", "w", "x", "v1"]
    assert len(representatives(many, 100)) == 7
