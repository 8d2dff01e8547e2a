"""A real upstream file (the distribution's PyTorch) under a real config of the downstream project."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

spec = importlib.util.spec_from_file_location("real_run", Path(__file__).parents[1] / "bench/real_run.py")
assert spec is not None
assert spec.loader is not None
real_run: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real_run)

CHOSEN = (
    "TestAdded",
    "TestAddedBroken",
    "TestViewOps::test_view_as_complex",  # skip in the config
    "TestViewOps::test_contiguous_self",  # must succeed
    "TestViewOps::test_unfold_view",  # xfail
    "TestOldViewOps::test_python_types",  # xfail
    "TestOldViewOps::test_atleast_gradient",
)


@pytest.fixture(scope="module")
def ran(pytorch_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, list[dict[str, Any]]]:
    tmp = tmp_path_factory.mktemp("real")
    code, lines = real_run.run(pytorch_tree, tmp, real_run.FILE, real_run.CONFIG, *CHOSEN)
    return tmp, code, lines


def test_every_outcome_is_there_in_every_report(ran: tuple[Path, int, list[dict[str, Any]]]) -> None:
    tmp, code, lines = ran
    assert code == 1
    assert {line["outcome"] for line in lines} == real_run.OUTCOMES
    cases = {case.get("name"): case for case in ET.parse(tmp / "r.xml").getroot().iter("testcase")}
    told = {test["name"]: test for test in json.loads((tmp / "r.json").read_text())["results"]["tests"]}
    for line in lines:
        properties = {p.get("name"): p.get("value") for p in cases[line["variant"]].iter("property")}
        assert properties["outcome"] == told[line["variant"]]["rawStatus"] == line["outcome"]
        assert properties.get("entry") == line["entry"]
        assert properties["engagement"] in ("engaged", "unengaged", "not-run", "unmetered")


def test_the_real_config_governs_its_own_tests(ran: tuple[Path, int, list[dict[str, Any]]]) -> None:
    by_test: dict[str, set[tuple[str, str, str]]] = {}
    for line in ran[2]:
        name = line["test"].rpartition("::")[2]
        by_test.setdefault(name, set()).add((line["mode"], line["outcome"], str(line["entry"]).partition(":")[0]))
    config = "test_view_ops_config.yaml"
    assert by_test["test_view_as_complex"] == {("skip", "skipped", config)}
    assert {(mode, entry) for mode, _, entry in by_test["test_python_types"]} == {("xfail", config)}
    assert {mode for mode, _, _ in by_test["test_contiguous_self"]} == {"mandatory_success"}
    assert by_test["test_added_is_mended"] == {("xfail_strict", "xpassed", "added.yaml")}
