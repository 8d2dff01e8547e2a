"""Checks the manifests of KEDA's and Kueue's kinds against their real schemas.

    python tests/bench/custom_resources.py CRD.yaml…     # CustomResourceDefinitions, from a cluster or a release

The suite checks them against shapes of our own (tests/custom_shapes.py), because the projects' files are not ours to
keep here. Fields that a schema does not know are refused, as `kubectl apply --validate=strict` does.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from manifests import OVERLAYS, built


def closed(schema: Any) -> Any:
    """The schema, with every object that lists its fields closed to others."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    return found


def main(files: list[str]) -> int:
    """0: every custom resource of every overlay fits one of the schemas."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("crds", nargs="+", type=Path, help="a file of CustomResourceDefinitions")
    schemas = {}
    for file in parser.parse_args(files).crds:
        for crd in yaml.safe_load_all(file.read_text()):
            for version in crd["spec"]["versions"]:
                key = (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
                schema = closed(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                schemas[key] = Draft202012Validator(schema)
    bad = checked = 0
    for overlay in OVERLAYS:
        for one in built(overlay):
            key = (one["apiVersion"], one["kind"])
            if key not in schemas:
                continue
            checked += 1
            for error in schemas[key].iter_errors(one):
                bad += 1
                print(f"{overlay}: {one['kind']} {one['metadata']['name']}: {error.json_path}: {error.message[:200]}")
    print(f"{checked} custom resources checked, {bad} problems")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
