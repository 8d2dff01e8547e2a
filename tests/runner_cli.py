"""Runs test files of ours by the runner's command line, as a person would."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def methods_of(source: str, file: str) -> list[str]:
    return [
        f"{file}::{cls.name}::{method.name}"
        for cls in ast.parse(source).body
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
    ]


def run_files(
    tmp: Path,
    sources: dict[str, str],
    *options: str,
    status: int = 0,
    beside: dict[str, str] | None = None,
    **values: Any,
) -> tuple[Any, Any]:
    """(result by variant, the last line). ``values`` go into the shard, ``beside`` beside it, ``options`` onto the
    command line."""
    tests: list[str] = []
    for name, source in sources.items():
        path = tmp / "tree" / "test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        tests += methods_of(source, f"test/{name}")
    shard = {
        "device": "spyre",
        "runtime": {"kind": "tests-only", "torch": "2.13.0"},
        "tests": tests,
        "limits": {"variant_s": 30, "shard_s": 240, "memory_mb": 4096},
        **values,
    }
    spec, out = tmp / "spec.json", tmp / "results.jsonl"
    spec.write_text(json.dumps({"shard": shard, **(beside or {})}))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", spec, "--tree", tmp / "tree", "--out", out]
    done = subprocess.run([*map(str, command), *options], env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    *lines, last = map(json.loads, out.read_text().splitlines())
    by_variant = {line["variant"]: line for line in lines}
    assert len(by_variant) == len(lines), "a variant was reported twice"
    return by_variant, last
