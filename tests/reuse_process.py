"""Runs upstream-style files under reuse configs in a process of its own, without the worker around it.

``run(...)`` returns what was generated (``records``), what each variant did (pytest's own words) and which tests came
out empty. The process installs the emulated device, as the worker's host does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = r"""
import json, sys
from pathlib import Path
import pytest
from relay import device
from relay.reuse.policy import Reuse, activate
from relay.reuse.registry import Registry
from relay.worker import collect
from selector.configs import ConfigSource, load_capability, load_configs

job = json.loads(Path(sys.argv[1]).read_text())
tree = Path(job["tree"])
device.install()
sheet = load_capability(job["capability"], "capability.yaml") if job["capability"] else None
configs = load_configs([ConfigSource(n, t) for n, t in job["configs"].items()])
reuse = Reuse(tree, configs, sheet, Registry())
activate(reuse)
device.comparing()
sys.path.insert(0, str(tree / "test"))
found = {"records": {}, "outcomes": {}, "emptied": {}, "marks": {}}

class Plugin:
    def pytest_collection_modifyitems(self, items):
        keep = []
        for item in items:
            method = getattr(item, "originalname", None) or item.name
            candidate = collect.Candidate(item.cls, method, str(item.path), lambda item=item: item)
            record = collect.record_of(candidate, reuse)
            item._obj = None  # the configs may have bound another function to the method
            item.relay = record
            found["records"].setdefault(record.key, []).append(
                {"op": record.op_name, "dtype": record.dtype, "mode": record.mode.value, "reason": record.reason,
                 "source": record.source, "listed": record.listed, "tags": record.tags, "op0": record.op,
                 "variant": record.op_variant, "test": str(record.test)})
            method = getattr(item.cls, item.name)
            found["marks"][record.key] = sorted({m.name for m in getattr(method, "pytestmark", ())})

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            found["outcomes"].setdefault(report.nodeid, []).append([report.outcome, str(report.longrepr or "")[-2000:]])

ini = Path(sys.argv[1]).with_suffix(".ini")
ini.write_text(collect.INI)
args = collect.arguments(tree, ini, job["files"]) + ([] if job["run"] else ["--collect-only"])
code = pytest.main(args, plugins=[Plugin()])
found["emptied"] = {str(e.test): e.reason for e in reuse.registry.emptied}
found["code"] = int(code)
Path(job["out"]).write_text(json.dumps(found))
"""


class Ran:
    """What one process found."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.records: dict[str, list[dict[str, Any]]] = found["records"]
        self.marks: dict[str, list[str]] = found["marks"]
        self.emptied: dict[str, str] = found["emptied"]
        self._outcomes: dict[str, list[list[str]]] = found["outcomes"]

    def variants(self, test: str) -> dict[str, dict[str, Any]]:
        """Generated method -> record, of ``Class::method``."""
        ends = f"::{test}"
        return {
            key.rpartition("::")[2]: records[0]
            for key, records in self.records.items()
            if records[0]["test"].endswith(ends)
        }

    def outcome(self, variant: str) -> str:
        """pytest's word for a generated method, by its name alone."""
        return self.said(variant)[0]

    def said(self, variant: str) -> list[str]:
        (found,) = [o for node, o in self._outcomes.items() if node.rpartition("::")[2] == variant]
        return found[0]


def run(
    tmp: Path,
    files: dict[str, str],
    configs: dict[str, str],
    capability: str = "",
    *,
    execute: bool = True,
    hashes: str = "",
) -> Ran:
    """``files``: path below the tree -> source; ``hashes``: seed of Python's hashes, in whose order upstream makes the
    tests of a class."""
    tree = tmp / "tree"
    for name, source in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(source)
    job = {
        "tree": str(tree),
        "files": [n for n in files if Path(n).name.startswith("test_")],
        "configs": configs,
        "capability": capability,
        "run": execute,
        "out": str(tmp / "found.json"),
    }
    (tmp / "job.json").write_text(json.dumps(job))
    import relay.reuse

    hook = Path(next(iter(relay.reuse.__path__))) / "torch_test_device.py"
    env = os.environ | {
        "TORCH_TEST_DEVICES": str(hook),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": hashes or "random",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp / "job.json")],
        cwd=tmp,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if not (tmp / "found.json").exists():
        raise AssertionError(f"the process ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return Ran(json.loads((tmp / "found.json").read_text()))
