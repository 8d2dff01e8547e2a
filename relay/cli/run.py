"""The body of ``relay run``: upstream's tests under a device's configs, on this machine, without a relay.

Exit codes: 0 done, 1 a test failed, 2 usage or config (nothing collected among them), 3 infrastructure.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relay.cli.run_change import Laid, laid_over
from relay.cli.terminal import Terminal
from relay.domain import result_reports as reports
from relay.errors import RelayError, SettingsError
from relay.services.device_configs import DeviceConfigs, load_device
from selector.configs import ReuseConfigs
from selector.configs.tags import parse_tags
from selector.discover import take
from selector.model import Outcome, TestId
from selector.trees import DirTree

WORST = 20
"""failures that are printed"""


class RunFailed(RelayError):
    """The runner could not run the tests: infrastructure, not a failure of a test."""

    code = "run-failed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, as given on the command line."""

    tests: Sequence[str]
    tree: Path
    configs: Path
    tags: str = ""
    variant_s: float = 60.0
    out: Path | None = None
    junit: Path | None = None
    ctrf: Path | None = None
    base: str = ""


def run(wanted: Wanted, console: Console | None = None) -> int:
    """Runs and reports; see the module for the exit codes."""
    console = console or Terminal(soft_wrap=True)
    device = load_device(wanted.configs, platform=platform.machine())
    tests = chosen(wanted.tests, wanted.tree, device.configs, wanted.tags)
    laid = laid_over(wanted.tree, wanted.base) if wanted.base else Laid((), {})
    began = time.time()
    lines, report = execute(device, tests, wanted.tree, wanted.variant_s, wanted.configs, laid.files)
    write(wanted, lines, report, began)
    print_results(lines, report, console)
    missing = unproven_files(lines, report, tests, device.configs)
    for file in missing:
        console.print(f"nothing was collected from {file}; allow_empty: true says that this is fine", style="bold")
    print_laid(laid, console)
    unknown = unmatched(wanted, report)
    for test, hint in unknown.items():
        console.print(f"no variant of {test}: {hint}", style="bold")
    if any(reports.fails(line) for line in lines) or report["errors"]:
        return 1
    return 2 if missing or unknown else 0


def chosen(words: Sequence[str], tree: Path, configs: ReuseConfigs, tags: str = "") -> list[TestId]:
    """The tests that are meant by files, ``file::Class`` and ``file::Class::method``. Raises SettingsError."""
    wanted = parse_tags(tags) if tags else None
    files = {word.partition("::")[0] for word in words}
    for file in files:
        if not (tree / file).is_file():
            raise SettingsError(f"there is no {file} in {tree}", "name files as upstream does: test/test_x.py")
    inventory = take(DirTree(tree, only=lambda path: path in files), processes=1)
    found: dict[TestId, None] = {}
    for word in words:
        parts = word.split("::")
        if len(parts) == 3:
            found[TestId(*parts)] = None
            continue
        known = [test for test, _, _ in inventory.tests(parts[0]) if len(parts) == 1 or test.cls == parts[1]]
        if not known:
            raise SettingsError(f"no test is to be seen in {word}", "name it whole: file::Class::method")
        found.update(dict.fromkeys(known))
    return [test for test in found if wanted is None or wanted(configs.tags(test))]


def unmatched(wanted: Wanted, report: dict[str, Any]) -> dict[str, str]:
    """Tests that were named whole and of which the runner found nothing -> what may have been meant."""
    named = {word for word in wanted.tests if word.count("::") == 2}
    found = {}
    for test in sorted(named & set(report["unmatched"])):
        file, cls, method = test.split("::")
        inventory = take(DirTree(wanted.tree, only=file.__eq__), processes=1)
        known = [one for one, _, _ in inventory.tests(file)]
        of_class = [one.method for one in known if one.cls == cls]
        base = max((one for one in of_class if method.startswith(f"{one}_")), key=len, default=None)
        if method in of_class:
            found[test] = "upstream does not make it for this device"
        elif base is not None:
            found[test] = f"one variant cannot be named; {file}::{cls}::{base} runs all of them"
        else:
            close = get_close_matches(f"{cls}::{method}", [f"{one.cls}::{one.method}" for one in known], 3, 0.7)
            found[test] = "there is no such test" + (f" (near: {', '.join(close)})" if close else "")
    return found


def execute(
    device: DeviceConfigs,
    tests: Sequence[TestId],
    tree: Path,
    variant_s: float,
    input_files: Path | None = None,
    laid: Sequence[str] = (),
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(result lines with ``entry`` and ``tags``, report) of the runner. ``input_files``: the folder that tensors of
    ``init: file`` lie in; ``laid``: files of the tree that are laid over the installed torch. Raises RunFailed."""
    runtime = {"kind": "overlay", "torch": "", "files": list(laid)} if laid else {"kind": "tests-only", "torch": ""}
    spec = {
        "device": device.capability.device,
        "runtime": runtime,
        "capability": device.capability_text,
        "configs": [{"name": source.name, "text": source.text} for source in device.texts],
        "tests": [str(test) for test in tests],
        "limits": {"variant_s": variant_s, "shard_s": 86400.0},
    }
    with tempfile.TemporaryDirectory(prefix="relay-run-") as folder:
        tmp = Path(folder)
        (tmp / "spec.json").write_text(json.dumps(spec))
        command = [sys.executable, "-m", "relay.worker.runner", "--spec", str(tmp / "spec.json")]
        command += ["--tree", str(tree.resolve()), "--out", str(tmp / "out"), "--quiet"]
        command += ["--governed", str(tmp / "governed")]
        if input_files is not None:
            command += ["--input-files", str(input_files.resolve())]
        done = subprocess.run(command, check=False)
        text = (tmp / "out").read_text(encoding="utf-8") if (tmp / "out").exists() else ""
        governed = json.loads((tmp / "governed").read_text("utf-8")) if (tmp / "governed").exists() else {}
    lines = [json.loads(line) for line in text.splitlines()]
    last = lines.pop() if lines else {}
    if "report" not in last:
        raise RunFailed(str(last.get("failed") or f"the runner ended with status {done.returncode}"))
    for line in lines:
        line |= governed[f"{line['test'].rpartition('::')[0]}::{line['variant']}"]
    return lines, last["report"]


def unproven_files(
    lines: Sequence[dict[str, Any]], report: dict[str, Any], tests: Sequence[TestId], configs: ReuseConfigs
) -> list[str]:
    """Files of which nothing was collected, though the configs do not allow that."""
    seen = {line["test"].partition("::")[0] for line in lines}
    broken = {error["file"] for error in report["errors"]}
    files = dict.fromkeys(test.file for test in tests)
    return [file for file in files if file not in seen | broken and not configs.allows_empty(file)]


def write(wanted: Wanted, lines: Sequence[dict[str, Any]], report: dict[str, Any], began: float) -> None:
    try:
        if wanted.out is not None:
            wanted.out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
        if wanted.junit is not None:
            wanted.junit.write_text(reports.junit(lines, report["errors"]), encoding="utf-8")
        if wanted.ctrf is not None:
            value = reports.ctrf(lines, int(began * 1000), int(time.time() * 1000))
            wanted.ctrf.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    except OSError as exc:
        raise SettingsError(f"{exc.filename}: {exc.strerror}", "give a file that can be written") from exc


def print_results(lines: Sequence[dict[str, Any]], report: dict[str, Any], console: Console) -> None:
    counts = reports.summary(lines)
    table = Table("outcome", "variants")
    for outcome in (*Outcome, "unproven", "unengaged"):
        if counts.get(str(outcome)):
            table.add_row(str(outcome), f"{counts[str(outcome)]:,}")
    console.print(table if table.row_count else "no variant ran")
    failed = [line for line in lines if reports.fails(line)]
    for line in failed[:WORST]:
        said = (line.get("message") or "").splitlines()
        where = line["test"].rpartition("::")[0]
        console.print(f"{line['outcome']}: {where}::{line['variant']}  {said[0] if said else ''}")
    if len(failed) > WORST:
        console.print(f"and {len(failed) - WORST} more failures")
    for error in report["errors"]:
        console.print(f"could not be imported: {error['file']}: {error['message'].splitlines()[-1]}")
    for emptied in report.get("emptied", ()):
        console.print(f"no variant: {emptied['test']}: {emptied['reason']}")


def print_laid(laid: Laid, console: Console) -> None:
    """What of the change ran, and what did not: a pass says nothing about that."""
    if laid.files:
        console.print(f"laid over the installed torch: {', '.join(laid.files)}")
    for path, why in laid.left.items():
        console.print(f"not exercised: {path}: {why}", style="bold")
