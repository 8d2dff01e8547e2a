"""What a verdict was made of, so that anybody can make it again: commits, runtime, sheets, configs, versions. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

CLAIMS = ("sha", "ref", "workflow_ref", "job_workflow_ref", "runner_environment", "build_commit", "pipeline_slug")
"""What tokens of downstream runs say about where they come from (docs/providers.md)."""
_SHA_CLAIMS = ("sha", "build_commit")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def source_of(claims: Mapping[str, Any]) -> dict[str, str]:
    """What a verified token says about the run that reports; ``sha`` is the downstream's own commit."""
    found = {name: str(claims[name])[:500] for name in CLAIMS if claims.get(name)}
    sha = next((found[name] for name in _SHA_CLAIMS if name in found), None)
    return {**found, **({"sha": sha} if sha else {})}


def of_specs(specs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Runtime, sheet and configs of a run's shards. They are one plan's, and so alike; if not, all are told."""
    runtimes: list[Any] = []
    sheets: set[str] = set()
    configs: dict[str, set[str]] = {}
    for spec in specs:
        if spec.get("runtime") not in runtimes:
            runtimes.append(spec.get("runtime"))
        if spec.get("capability"):
            sheets.add(digest(spec["capability"]))
        for one in spec.get("configs") or ():
            configs.setdefault(str(one["name"]), set()).add(digest(str(one["text"])))
    return {
        "runtime": [_runtime(one) for one in runtimes if one],
        "capability": sorted(sheets),
        "configs": {name: sorted(found) for name, found in sorted(configs.items())},
    }


def _runtime(runtime: Mapping[str, Any]) -> dict[str, Any]:
    files = list(runtime.get("files") or ())
    return {"kind": runtime.get("kind"), "torch": runtime.get("torch"), "files": len(files)}


def make(
    run: Mapping[str, Any],
    *,
    versions: Mapping[str, str],
    made_of: Mapping[str, Any] | None,
    workers: Iterable[Mapping[str, Any]],
    sources: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The record of one verdict. ``run``: the dispatch's columns; ``made_of``: of ``of_specs``, None for a downstream's
    own CI; ``workers``: {name, torch, info}; ``sources``: what its jobs' tokens said."""
    shas = sorted({str(one["sha"]) for one in sources if one.get("sha")})
    return {
        "upstream": {
            "repo": run["upstream"],
            "head": run["head_sha"],
            "base": run["base_sha"],
            "merge_base": run["compare_sha"],
        },
        "downstream": {"repo": run["downstream"], "sha": shas, "runs": [dict(one) for one in sources if one]},
        "runtime": [],
        "capability": [],
        "configs": {},
        **(made_of or {}),
        "versions": dict(versions),
        "workers": [
            {
                "name": one["name"],
                "torch": one["torch"],
                "python": (one.get("info") or {}).get("python"),
                "image": (one.get("info") or {}).get("image"),
            }
            for one in workers
        ],
        "pin": run.get("pin"),
        "rerun_of": run.get("rerun_of"),
    }


SAME = ("upstream", "runtime", "capability", "configs")
"""What a rerun must have in common with the run that it repeats."""


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The parts in which two records differ although a rerun should not."""
    return [name for name in SAME if one.get(name) != other.get(name)]
