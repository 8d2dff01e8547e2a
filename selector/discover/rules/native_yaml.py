"""Tests of the functions whose entries in the YAML of native functions or derivatives differ."""

from __future__ import annotations

from selector.discover import native
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex
from selector.discover.rules.op_hits import add_ops
from selector.model import FileChange


def native_yaml(file: FileChange, findings: Findings, index: OpIndex) -> None:
    """Functions whose entries in ``native_functions.yaml`` or ``derivatives.yaml`` differ."""
    names = {name: index.word(name) for name in sorted(native.yaml_ops(file.old, file.new))}
    add_ops(file, names, "op-native", f"its entry in {file.path} differs", findings, index)
    if native.yaml_head_changed(file.old, file.new):
        findings.not_mapped(file.path, "the part before the first entry differs")
