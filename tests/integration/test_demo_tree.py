"""The demo's PR breaks on the emulated device exactly what it is said to break, and nothing on the CPU."""

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from relay.demo.upstream import REFS, DemoUpstream, build
from relay.worker import overlay

pytestmark = pytest.mark.torch
CONFIGS = Path(__file__).resolve().parents[2] / "test_configs" / "spyre"
LIMIT_S = 240


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> DemoUpstream:
    return build(tmp_path_factory.mktemp("up") / "upstream", sys.executable)


def checkout(upstream: DemoUpstream, sha: str, to: Path) -> Path:
    to.mkdir()
    archive = subprocess.run(["git", "-C", str(upstream.path), "archive", sha], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(to)], input=archive.stdout, check=True)
    return to


def methods_of(tree: Path) -> list[str]:
    found = []
    for path in sorted((tree / "test").glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                names = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                found += [f"test/{path.name}::{node.name}::{name}" for name in names if name.startswith("test_")]
    return found


def run_on_device(tree: Path, tmp_path: Path) -> dict[str, set[str]]:
    """outcome -> keys of variants, under the device's own configs and sheet"""
    shard = {
        "device": "spyre",
        "capability": (CONFIGS / "capability.yaml").read_text(),
        "configs": [
            {"name": path.name, "text": path.read_text()}
            for path in sorted(CONFIGS.glob("*.yaml"))
            if path.name != "capability.yaml"
        ],
        "runtime": {"kind": "overlay", "torch": "2.13.0", "files": [REFS]},
        "tests": methods_of(tree),
    }
    (tmp_path / "spec.json").write_text(json.dumps(shard))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", str(tmp_path / "spec.json")]
    command += ["--tree", str(tree), "--out", str(tmp_path / "out.jsonl")]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    *rows, last = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert last["report"]["errors"] == []
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["outcome"]].add(row["test"].rsplit("::", 1)[0] + "::" + row["variant"])
    return found


def test_base_and_head_on_the_device(upstream: DemoUpstream, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "h").mkdir()
    base = run_on_device(checkout(upstream, upstream.base_sha, tmp_path / "base"), tmp_path / "b")
    head = run_on_device(checkout(upstream, upstream.head_sha, tmp_path / "head"), tmp_path / "h")
    known = {f"{test}_spyre_float32" for test in upstream.expect.pre_existing}
    assert base["failed"] | base["error"] == known
    assert head["failed"] | head["error"] == known | upstream.expect.regressed_variants
    assert upstream.expect.regressed_variants <= base["passed"]
    for test in upstream.expect.passing:
        assert any(key.startswith(test) for key in head["passed"]), test
    for outcomes in (base, head):
        assert not outcomes["crashed"]
        assert not outcomes["timed_out"]


def test_head_passes_on_the_cpu(upstream: DemoUpstream, tmp_path: Path) -> None:
    import importlib.util

    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    tree = checkout(upstream, upstream.head_sha, tmp_path / "head")
    site = overlay.build(tree, [REFS], Path(next(iter(spec.submodule_search_locations))).parent, tmp_path / "site")
    env = {
        **{k: v for k, v in os.environ.items() if k != "CI"},  # there, torch wants packages that only its own CI has
        "PYTHONPATH": f"{site}{os.pathsep}{tree / 'test'}",
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for file in ("test_pointwise_demo.py", "test_refs_demo.py"):
        done = subprocess.run(
            [sys.executable, str(tree / "test" / file)], env=env, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "\nOK" in done.stderr
