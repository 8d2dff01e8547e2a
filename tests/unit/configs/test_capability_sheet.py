"""The device sheet, and the configs we ship for it."""

from pathlib import Path

import pytest

from selector.configs import ConfigSource, lint, load_capability, load_configs
from selector.errors import ConfigError
from selector.model import Mode, TestId

FOLDER = Path(__file__).parents[3] / "test_configs/spyre"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("capability: {device: toy, dtypes: []}", 1, "name"),
        ("capability:\n  name: a\n  device: toy\n  dtypes: [float17]\n", 4, "float16"),
        ("capability:\n  name: a\n  device: toy\n  dtypes: []\n  machine: {cores: many}\n", 5, "a number"),
        ("capability:\n  name: a\n  device: toy\n  dtypes: []\n  features: {sparse: 1}\n", 5, "true or false"),
        ("capability:\n  name: a\n  device: toy\n  dtypes: []\n  opps: [add]\n", 5, "ops"),
        ("capability:\n  name: a\n  device: toy\n  dtypes: []\n  ops: ['aten::add']\n", 5, "aten::"),
        ("global: {}", 1, "capability"),
    ],
)
def test_a_bad_sheet_is_refused_at_its_place(text: str, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_capability(text, "capability.yaml")
    assert caught.value.line == line
    assert said in str(caught.value)


def test_ops_are_asked_in_any_spelling() -> None:
    sheet = load_capability(
        "capability: {name: a, device: toy, dtypes: [half], ops: [add, __and__, mul.Tensor], fallback_ops: [sin]}", "c"
    )
    assert [n for n in ("add", "add_", "aten::add_.Tensor", "sin", "mul.Tensor") if not sheet.supports_op(n)] == []
    assert [n for n in ("mul", "lgamma", "add__", "_refs.add") if sheet.supports_op(n)] == ["add__"]
    assert sheet.supports_dtype("torch.float16")
    assert not sheet.supports_dtype("float32")


def test_a_sheet_without_ops_has_them_all() -> None:
    assert load_capability("capability: {name: a, device: toy, dtypes: []}", "c").supports_op("lgamma")


def test_the_spyre_sheet() -> None:
    sheet = load_capability((FOLDER / "capability.yaml").read_text(), "capability.yaml")
    assert sheet.device == "spyre"
    assert len(sheet.ops or ()) + len(sheet.fallback_ops) == 64
    assert sheet.machine["cores"] * sheet.machine["scratchpad_bytes"] == 64 << 20
    assert sheet.machine["power_w"] == 75
    assert not sheet.supports_dtype("float64")


def test_the_spyre_configs_have_no_problem() -> None:
    sources = [ConfigSource(p.name, p.read_text()) for p in sorted(FOLDER.glob("*.yaml"))]
    assert lint(sources) == []
    configs = load_configs(sources)
    demo = TestId("test/test_pointwise_demo.py", "TestPointwiseDemo", "test_weighted_rows")
    assert configs.rule(demo).mode is Mode.MANDATORY_SUCCESS
    slow = configs.rule(TestId(demo.file, demo.cls, "test_long_chain"))
    assert slow.mode is Mode.SKIP
    assert slow.reason
    sparse = configs.rule(TestId("test/test_type_promotion.py", "TestTypePromotion", "test_sparse_add"))
    assert (sparse.mode, sparse.reason) == (Mode.XFAIL, "the device has no sparse layouts")
    assert configs.ops(demo).keeps("_refs.addcdiv")
    assert configs.ops(demo).keeps("div", "floor_rounding")
    assert not configs.ops(demo).keeps("lgamma")
