"""What the rules that know op names share: tests that run them, and the names that lead nowhere."""

from __future__ import annotations

from collections.abc import Mapping

from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.model import Evidence, FileChange


def add_ops(
    file: FileChange,
    targets: Mapping[str, OpTarget | None],
    code: str,
    why: str,
    findings: Findings,
    index: OpIndex,
    factor: float = 1.0,
) -> None:
    """Adds the tests that run the ops, by the names that the file gives them; a name that leads nowhere widens."""
    found = {target: name for name, target in targets.items() if target is not None}
    reached: set[OpTarget | None] = set()
    for op, hit in index.hits(findings.inventory, found):
        reached.add(op)
        fact = Evidence("op", f"runs {op.word} ({hit.how}): {why}", file.path, symbol=found[op])
        findings.add(hit.test, code, fact, hit.factor * factor, hit.ops)
    if code != "op-kernel-other-backend":
        for name, target in targets.items():
            if target not in reached:
                findings.not_mapped(file.path, f"no test was found to run {name}", name)
