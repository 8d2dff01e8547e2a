"""What stays of a test's ops and dtypes: configs and sheet put together, by names."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.reuse.policy import Reuse, TestPolicy
from relay.reuse.registry import Registry
from selector.configs import Capability, ConfigSource, load_capability, load_configs
from selector.model import Mode, TestId

TEST = TestId("test/test_x.py", "TestX", "test_a")
SHEET = """
capability:
  name: little
  device: spyre
  dtypes: [float32, float16]
  ops: [add, _softmax]
"""


@pytest.fixture
def sheet() -> Capability:
    return load_capability(SHEET, "capability.yaml")


def policy(entry: str, sheet: Capability | None, globals_: str = "") -> TestPolicy:
    text = f"""
test_suite_config:
  files:
    - path: ${{TORCH_ROOT}}/test/test_x.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: TestX::test_a
{entry}
{globals_}
"""
    return TestPolicy(TEST, load_configs([ConfigSource("x.yaml", text)]), sheet)


def test_without_a_list_of_ops_the_sheet_decides_but_for_composites(sheet: Capability) -> None:
    plain = policy("          mode: mandatory_success", sheet)
    assert plain.keeps_op("add", "", "add")
    assert not plain.keeps_op("lgamma", "", "lgamma")
    assert plain.keeps_op("softmax", "with_dtype", "softmax", composite=True)
    assert not plain.keeps_op("softmax", "with_dtype", "softmax")


def test_a_list_of_ops_decides_alone(sheet: Capability) -> None:
    listed = policy("          mode: mandatory_success", sheet, "  global:\n    supported_ops: [lgamma]")
    assert listed.keeps_op("lgamma", "", "lgamma")
    assert not listed.keeps_op("add", "", "add")


def test_dtypes_follow_the_chain(sheet: Capability) -> None:
    entry = (
        "          edits:\n            dtypes:\n"
        "              include: [{name: int64}]\n              exclude: [{name: float16}]"
    )
    edited = policy(entry, sheet)
    assert edited.dtypes(("float32", "float16", "float64")) == {"float32", "int64"}
    assert edited.included_dtypes() == {"int64"}
    assert not edited.keeps_dtype("float64")
    assert TestPolicy(TEST, None, None).keeps_dtype("float64")


def test_a_record_says_how_and_where_it_was_decided(sheet: Capability) -> None:
    moded = policy("          mode: xfail\n          reason: rounding\n          issue: a/b#7", sheet)
    record = moded.record("test_a_add_spyre_float32", "add", "", ("float32",))
    assert (record.mode, record.reason, record.issue) == (Mode.XFAIL, "rounding", "a/b#7")
    assert record.source.startswith("x.yaml:")
    assert record.key == "test/test_x.py::TestX::test_a_add_spyre_float32"
    assert moded.record("v", "div", "floor_rounding", ("float32", "int64")).dtype == "float32,int64"
    assert moded.record("v", "div", "floor_rounding").op_name == "div.floor_rounding"


def test_records_are_found_by_class_object_and_through_subclasses() -> None:
    class One: ...

    class Two: ...

    class Child(One): ...

    registry = Registry()
    record = TestPolicy(TEST, None, None).record("test_a_spyre")
    registry.add(One, record)
    assert registry.get(One, "test_a_spyre") is record
    assert registry.get(Child, "test_a_spyre") is record
    assert registry.get(Two, "test_a_spyre") is None


def test_files_are_named_as_upstream_names_them(tmp_path: Path) -> None:
    reuse = Reuse(tmp_path, None, None, Registry())
    assert reuse.file_of(str(tmp_path / "test" / "nn" / "test_x.py")) == "test/nn/test_x.py"
    assert reuse.file_of("/elsewhere/test_x.py") == "/elsewhere/test_x.py"
    assert reuse.file_of(None) == "?"
