"""The arithmetic of the benches that run upstream's files on both devices. No torch, but for the last tests."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHES = Path(__file__).parents[3] / "tests" / "bench"


def _bench(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_bench", BENCHES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench, ratio = _bench("device_files"), _bench("device_ratio")


def line(variant: str, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"test": "test/test_x.py::TestX::test_a", "variant": variant, "outcome": outcome, "seconds": 1.0,
            "message": None, "reason": None, **more}  # fmt: skip


REPORT = {"report": {"errors": [], "tests": []}}


@pytest.mark.parametrize(
    ("variant", "where"),
    [("test_a_cpu", "cpu"), ("test_a_spyre_float32", "spyre"), ("test_cpu_scalar_spyre", "spyre"), ("test_plain", "")],
)
def test_a_variants_device_is_the_last_one_in_its_name(variant: str, where: str) -> None:
    assert bench.placed(line(variant))[0] == where


def test_variants_are_paired_and_only_the_devices_failures_count_against_it() -> None:
    lines = [
        line("test_a_cpu"), line("test_a_spyre", seconds=2.0),
        line("test_b_cpu"), line("test_b_spyre", "failed", message="RuntimeError: odd"),
        line("test_c_cpu"), line("test_c_spyre", "self_skipped", reason="Only runs on cpu"),
        line("test_d_cpu", "failed"), line("test_d_spyre", "failed"),
        line("test_e_cpu", "failed"), line("test_e_spyre", "xfailed"),
        line("test_f_cpu"), line("test_plain"),
        REPORT,
    ]  # fmt: skip
    found = bench.compare("test/test_x.py", lines)
    assert (found.both, found.passed["cpu"], found.passed["spyre"], found.only["cpu"]) == (5, 3, 2, 1)
    assert bench.seconds(found.timed) == "1.0 / 2.0 = 2.00x"
    assert [bad["variant"] for bad in found.unexplained] == ["test_b_spyre"]
    assert {words: len(bad) for words, bad in found.worse.items() if words} == {"upstream runs it on the CPU only": 1}
    assert len(found.better) == 1


def test_a_reason_covers_no_more_than_it_names() -> None:
    words = "needs quantised tensors"
    reason = next(r for r in bench.REASONS if r.words == words)
    said = "Could not run 'aten::q' with arguments from the 'Quantizedspyre' backend"
    assert reason.covers(line("test_a_spyre", "failed", message=said))
    assert not reason.covers(line("test_a_spyre", "failed", message=said.replace("Quantized", "")))
    lazy = next(r for r in bench.REASONS if "lazy" in r.words)
    said = "RuntimeError: weight should have at least three dimensions"
    assert not lazy.covers(line("test_forward_nn_Conv1d_spyre", "failed", message=said))


@pytest.mark.torch
def test_a_file_of_upstreams_differs_for_listed_reasons_only(pytorch_tree: Path, tmp_path: Path) -> None:
    assert bench.main(["test/test_shape_ops.py", "--tree", str(pytorch_tree), "--keep", str(tmp_path)]) == 0
    kept = tmp_path / "test_shape_ops.jsonl"
    found = bench.compare("test/test_shape_ops.py", bench.complete("test/test_shape_ops.py", kept, None, 1, True))
    assert found.both > 80
    assert found.passed["spyre"] >= found.passed["cpu"] - 4


def test_tests_of_thousands_of_operators_are_summed_apart() -> None:
    middle = {"a": {"cpu": 1.0, "spyre": 1.5}, "b": {"cpu": 3.0, "spyre": 3.5}, "c": {"cpu": 2.0, "spyre": 8.0}}
    line = ratio.Line.of(middle, {"a": 1, "b": 999, "c": 1000})
    assert line.ratios() == "all 2.17x, tests of operators 1.25x, of thousands of tiny ones 4.00x"
    few = ratio.Line.of({"a": middle["a"]}, {"a": 1})
    assert few.ratios() == "all 1.50x, tests of operators 1.50x"
    assert (line + few.times(2)).tests == {"cpu": 6.0, "spyre": 8.0}


FILE = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCPU
from torch.testing._internal.common_utils import TestCase


class TestSome(TestCase):
    def test_few(self, device):
        self.assertEqual(torch.ones(2, device=device) + 1, torch.full((2,), 2.0))

    def test_many(self, device):
        x = torch.ones(2, device=device)
        for _ in range(1200):
            x.add_(1)

    def test_without_end(self, device):
        while device != "cpu":
            pass

    def test_wrong(self, device):
        self.assertEqual(torch.ones(2, device=device), torch.zeros(2))

    @onlyCPU
    def test_elsewhere(self, device):
        pass


instantiate_device_type_tests(TestSome, globals())
"""


@pytest.mark.torch
def test_a_files_ratio_is_that_of_what_passes_on_both(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_some.py").write_text(FILE)
    command = [sys.executable, str(BENCHES / "device_ratio.py"), "test/test_some.py", "--tree", str(tmp_path)]
    done = subprocess.run([*command, "--timeout=5", "--rounds=1", "--worst=9"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *worst, last = done.stdout.splitlines()
    assert "2 of 5 sampled of 5" in first
    assert last.startswith("together, by variants: all ")
    said = {line.rpartition(" ")[2]: "1000 operators" in line for line in worst}
    assert said == {"test_few": False, "test_many": True}


@pytest.mark.torch
def test_tests_of_operators_are_timed_each_device_apart(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_some.py").write_text(FILE.replace("while device", "if device"))
    command = [sys.executable, str(BENCHES / "device_files.py"), "test/test_some.py", "--tree", str(tmp_path)]
    command += ["--time=1", "--few", "--slowest=9", f"--keep={tmp_path / 'kept'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [line.strip() for line in done.stdout.splitlines()]
    few = next(i for i, line in enumerate(said) if line.startswith("tests of operators (2) "))
    assert said[few].count("x") >= 2
    assert ", as runs " in said[few]
    assert {line.rpartition(" ")[2] for line in said[few + 1 :]} == {"test_few", "test_without_end"}  # not the many
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"test_some.jsonl", "test_some.operators.json"}
