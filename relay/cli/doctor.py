"""The body of ``relay doctor``."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from relay.cli.terminal import Terminal
from relay.worker import doctor

MARKS = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}


def run(folder: Path | None, config: str | None = None, *, worker: bool = True, console: Console | None = None) -> int:
    """Prints every finding, with what to do about it. 0 when nothing keeps it from working, 1 otherwise."""
    console = console or Terminal(soft_wrap=True)
    findings = doctor.report(folder) if worker else []
    if config or os.environ.get("RELAY_CONFIG"):
        from relay.cli import checkup

        findings += checkup.report(config)
    for finding in findings:
        console.print(f"{MARKS[finding.level]}  {finding.what}")
        if finding.hint and finding.level != "ok":
            console.print(f"         {finding.hint}")
    return 1 if any(f.level == "error" for f in findings) else 0
