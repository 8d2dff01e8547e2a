"""`relay triage eval` on public decisions and on PyTorch's own tests: four configs that lie in tests/data."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.cli import triage as cli_triage
from relay.cli.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
SHEET = ROOT / "test_configs" / "spyre" / "capability.yaml"
CONFIGS = {
    "test_shape_ops.yaml": "test/test_shape_ops.py",
    "test_unary_ufuncs.yaml": "test/test_unary_ufuncs.py",
    "test_indexing.yaml": "test/test_indexing.py",
    "inductor-test_scatter_optimization.yaml": "test/inductor/test_scatter_optimization.py",
}


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decisions")
    for name in CONFIGS:
        shutil.copy(ROOT / "tests" / "data" / "spyre-configs" / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, pytorch_tree: Path) -> Path:
    """The four upstream files that the decisions are about: the rest of the tree would only cost time."""
    folder = tmp_path_factory.mktemp("tree")
    for path in CONFIGS.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pytorch_tree / path, folder / path)
    return folder


def run(configs: Path, upstream: Path, evidence: list[Path] | None = None) -> dict[str, Any]:
    console = Terminal(file=io.StringIO())
    assert cli_triage.run(configs, upstream, SHEET, None, evidence or [], None, as_json=True, console=console) == 0
    value: dict[str, Any] = json.loads(console.file.getvalue())  # type: ignore[attr-defined]
    return value


def test_the_agreement_on_real_files(decisions: Path, tree: Path) -> None:
    value = run(decisions, tree)
    files = value["files"]
    assert set(files) == set(CONFIGS.values())
    # each is a file that the rules were not made for, or one of which all is known
    assert files["test/test_shape_ops.py"]["agreement"] >= 0.95
    assert files["test/test_unary_ufuncs.py"]["agreement"] >= 0.95
    assert files["test/test_indexing.py"]["agreement"] >= 0.9
    # its decisions skip without saying why, which counts as engaging
    assert files["test/inductor/test_scatter_optimization.py"]["agreement"] < 0.5
    assert value["raw"]["all"]["rows"] == sum(one["rows"] for one in files.values())
    assert value["raw"]["tuned"]["rows"] + value["raw"]["held-out"]["rows"] == value["raw"]["all"]["rows"]
    for one in value["disagreements"]:
        assert one["triage"]["reason"]
        assert one["triage"]["evidence"]
        assert one["decided"]["place"].partition(":")[0] in CONFIGS


def test_swapped_decisions_lower_the_agreement(decisions: Path, tree: Path, tmp_path: Path) -> None:
    """The names of what engages and of what does not, exchanged in one config: the measure follows."""
    name = "test_unary_ufuncs.yaml"
    text = (decisions / name).read_text()
    assert "mode: skip  # does not engage" in text
    text = text.replace("mode: xfail", "mode: skip  # does not engage #").replace(
        "mode: skip  # does not engage the", "mode: xfail  # runs on the"
    )
    (tmp_path / name).write_text(text)
    before = run(decisions, tree)["files"][CONFIGS[name]]["agreement"]
    after = run(tmp_path, tree)["files"][CONFIGS[name]]["agreement"]
    assert after < 0.3 < before


def test_kernel_counts_exclude_and_overrule(decisions: Path, tree: Path, tmp_path: Path) -> None:
    scatter = "test/inductor/test_scatter_optimization.py::TestScatterOpt"
    rows = [
        {"test": f"{scatter}::test_3d_tensor", "variant": "a", "outcome": "passed", "kernels": 0},
        {"test": f"{scatter}::test_neg_scatter_dim", "variant": "b", "outcome": "failed", "kernels": 0},
        {
            "test": "test/test_shape_ops.py::TestShapeOps::test_unbind",
            "variant": "c",
            "outcome": "passed",
            "kernels": 2,
        },
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    value = run(decisions, tree, [path])
    excluded = {d["test"].rpartition("::")[2]: d["excluded"] for d in value["disagreements"]}
    assert value["with_evidence"] == 3
    assert value["exclusions"]["kernels-against-decision"]["rows"] == 2
    assert excluded["test_3d_tensor"]["code"] == "kernels-against-decision"
    # a failure before the first kernel is no evidence; what is left is that the decision says no word
    assert excluded["test_neg_scatter_dim"]["code"] == "skip-without-reason"
    (unbind,) = [d for d in value["disagreements"] if d["test"].endswith("::test_unbind")]
    assert unbind["triage"]["code"] == "engaged-before"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"--configs": "none"}, "is not a folder"),
        ({"--configs": "empty"}, "has no *.yaml"),
        ({"--configs": "broken"}, "a.yaml:2:1: not valid YAML"),
        ({"--configs": "strange"}, "is a test of"),
        ({"--upstream": "empty"}, "no Python file under test/"),
        ({"--sheet": "none.yaml"}, "No such file"),
        ({"--evidence": "broken/a.yaml"}, "no result line"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_2(tmp_path: Path, change: dict[str, str], says: str) -> None:
    config = (
        "test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_x.py\n      tests: [{names: [test_a]}]\n"
    )
    for folder, text in (("fine", config), ("broken", "test_suite_config: ["), ("strange", config.replace("_x", "_y"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.yaml").write_text(text)
    (tmp_path / "empty").mkdir()
    (tmp_path / "up" / "test").mkdir(parents=True)
    (tmp_path / "up" / "test" / "test_x.py").write_text("class TestX(TestCase):\n    def test_a(self): pass\n")
    given = {"--configs": "fine", "--upstream": "up"} | change
    paths = [f"{name}={tmp_path / value}" for name, value in given.items()]
    command = [sys.executable, "-m", "relay.cli", "triage", "eval", *paths]
    if "--sheet" not in given:
        command.append(f"--sheet={SHEET}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("relay: ")
    assert says in done.stderr


def test_the_command_prints_tables_and_reasons(decisions: Path, tree: Path) -> None:
    command = [sys.executable, "-m", "relay.cli", "triage", "eval", f"--configs={decisions}", f"--upstream={tree}"]
    done = subprocess.run([*command, f"--sheet={SHEET}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "held-out" in done.stdout
    assert "test/inductor/test_scatter_optimization.py " in done.stdout
    assert "  triage:  irrelevant (plain-other-device): it runs on the CPU or on" in done.stdout
