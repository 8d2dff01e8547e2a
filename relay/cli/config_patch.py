"""The body of ``relay config propose --patch``: what results say about a device's configs, as the fewest changed lines,
checked before anybody sees them; as a file, a branch of a git repository, or a pull request. A person merges it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from relay.cli.config import read_text
from relay.cli.terminal import Terminal
from relay.domain.words import plural
from relay.errors import SettingsError
from relay.services.device_configs import DeviceConfigs, load_device
from relay.services.patch_body import body, title
from selector.configs import ConfigSource
from selector.errors import ConfigError
from selector.model import Mode, Outcome, TestId, VariantResult
from selector.plan.patch import ConfigEdit, patch
from selector.plan.patch_tolerance import ToleranceEdit
from selector.plan.proposals import Found, Proposal, propose
from selector.plan.standing import Enough, Run
from selector.plan.validate import unified, validate

COLLECT_S = 600.0


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the patch goes: ``out`` a file; ``branch`` of the git repository that holds the folder; ``pull_request``
    owner/name with ``base`` its branch, ``prefix`` the folder's path there, ``settings`` of the relay whose outbox
    takes it. None of them: it is printed."""

    out: Path | None = None
    branch: str = ""
    pull_request: str = ""
    base: str = "main"
    prefix: str = ""
    settings: str | None = None


def run_patch(
    results: Sequence[Path],
    folder: Path,
    to: Destination,
    *,
    upstream: Path | None = None,
    enough: int = 5,
    console: Console | None = None,
) -> int:
    """0; 1 when a proposal was refused by its checks, or tests fail for no limit that is known."""
    console = console or Terminal(soft_wrap=True)
    device = load_device(folder)
    found = propose(read_runs(results), device.configs, datetime.now(UTC).date(), Enough(enough, min(enough, 3)))
    after, edits, refused = patched(device, [p.edit for p in found.proposals if p.edit is not None])
    checks = _checks(device, after, edits, upstream, console) if edits else []
    _tell(found, refused, checks, console)
    if checks:
        return 1
    before = {source.name: source.text for source in device.texts}
    changed = {s.name: (before[s.name], s.text) for s in after if s.text != before[s.name]}
    if changed:
        proposals = [p for p in found.proposals if p.edit in edits]
        _deliver(folder, device, after, changed, proposals, to, upstream is not None, console)
    return 1 if refused or found.unexplained else 0


def read_runs(paths: Sequence[Path]) -> dict[TestId, list[Run]]:
    """Results of ``relay run --out``: a file is a run. Raises SettingsError with the line that is none."""
    runs: dict[TestId, list[Run]] = {}
    for path in paths:
        by_test: dict[TestId, list[VariantResult]] = {}
        for number, text in enumerate(read_text(path).splitlines(), 1):
            try:
                line = json.loads(text)
                one = VariantResult(
                    TestId.parse(line["test"]),
                    line["variant"],
                    Outcome(line["outcome"]),
                    Mode(line["mode"]),
                    op=line.get("op"),
                    dtype=line.get("dtype"),
                    message=line.get("message"),
                    log_tail=line.get("log_tail"),
                )
            except (ValueError, KeyError, TypeError) as exc:
                raise SettingsError(f"{path}:{number}: not a result: {exc}", "relay run --out writes them") from exc
            by_test.setdefault(one.test, []).append(one)
        for test, seen in by_test.items():
            runs.setdefault(test, []).append(Run(path.name, seen))
    return runs


def patched(
    device: DeviceConfigs, edits: Sequence[ConfigEdit | ToleranceEdit]
) -> tuple[list[ConfigSource], list[ConfigEdit | ToleranceEdit], list[str]]:
    """All of the device's files after the edits, the edits that were made, and why some could not be."""
    texts = {source.name: source for source in device.texts}
    made, refused = [], []
    for edit in edits:
        name = _home(device, edit)
        try:
            texts[name] = patch(texts[name], [edit])
        except ConfigError as exc:
            refused.append(str(exc))
        else:
            made.append(edit)
    return list(texts.values()), made, refused


def _home(device: DeviceConfigs, edit: ConfigEdit | ToleranceEdit) -> str:
    """The config that governs the test, else one with a block for its file, else the first; of an op's tolerance, the
    file that lists the op as supported."""
    test = edit.test
    if isinstance(edit, ToleranceEdit) and edit.op and (place := device.configs.supported_op(test, edit.op)):
        return place.source
    governs = device.configs.rule(test).source.rpartition(":")[0]
    if governs:
        return governs
    exact = (s.source for s in device.configs.suites for f in s.files if f.path.path == test.file)
    return next(exact, device.configs.suites[0].source)


def _checks(
    device: DeviceConfigs,
    after: Sequence[ConfigSource],
    edits: Sequence[ConfigEdit | ToleranceEdit],
    upstream: Path | None,
    console: Console,
) -> list[str]:
    made = {edit.test for edit in edits}
    wrong = validate(device.texts, after, edits, device.capability, datetime.now(UTC).date())
    if upstream is None:
        console.print("not collected: --upstream DIR also imports the files under the new configs")
    elif not wrong:
        wrong = collect(upstream, device, after, sorted(made))
    return wrong


def collect(upstream: Path, device: DeviceConfigs, after: Sequence[ConfigSource], tests: Sequence[TestId]) -> list[str]:
    """Imports the tests' files under the patched configs, on the device, and runs none. What is wrong."""
    shard = {
        "device": device.capability.device,
        "runtime": {"kind": "tests-only", "torch": ""},
        "capability": device.capability_text,
        "configs": [{"name": s.name, "text": s.text} for s in after],
        "tests": [str(test) for test in tests],
        "variants": [],
        "trusted": True,
    }
    with tempfile.TemporaryDirectory(prefix="relay-collect-") as tmp:
        spec, out = Path(tmp) / "spec.json", Path(tmp) / "out.jsonl"
        spec.write_text(json.dumps({"shard": shard}), encoding="utf-8")
        command = [sys.executable, "-m", "relay.worker.runner", "--spec", spec, "--tree", upstream, "--out", out]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=COLLECT_S, check=False)
        if not out.exists() or not out.read_text(encoding="utf-8").strip():
            return [f"dry collection: {done.stderr.strip()[-500:]}"]
        last: dict[str, Any] = json.loads(out.read_text(encoding="utf-8").splitlines()[-1])
    if "failed" in last:
        return [f"dry collection: {last['failed']}"]
    report = last["report"]
    wrong = [f"dry collection: {e['file']} cannot be imported: {e['message']}" for e in report["errors"]]
    return wrong + [f"dry collection: {name} is not there" for name in report["unmatched"]]


def _tell(found: Found, refused: Sequence[str], checks: Sequence[str], console: Console) -> None:
    for one in found.proposals:
        console.print(f"{one.kind}: {one.subject}: {one.reason} ({'; '.join(one.evidence)})")
    for text in refused:
        console.print(f"not edited: {text}")
    for test in found.unexplained:
        console.print(f"not explained by a limit of the device: {test}")
    for text in checks:
        console.print(f"refused: {text}")


def _deliver(
    folder: Path,
    device: DeviceConfigs,
    after: Sequence[ConfigSource],
    changed: Mapping[str, tuple[str, str]],
    proposals: Sequence[Proposal],
    to: Destination,
    collected: bool,
    console: Console,
) -> None:
    text = unified(device.texts, after)
    if to.out is not None:
        to.out.write_text(text, encoding="utf-8")
        console.print(f"{to.out}: {plural(len(changed), 'file')} changed; git apply takes it in {folder}")
    if to.branch:
        commit = to_branch(folder, to.branch, changed, title(proposals), body(proposals, text, collected))
        console.print(f"branch {to.branch}: {commit}")
    if to.pull_request:
        from relay.services import effects_pull
        from relay.settings import load
        from relay.store.db import open_migrated

        engine = open_migrated(load(to.settings).database)
        files = {f"{to.prefix.strip('/')}/{name}".lstrip("/"): texts for name, texts in changed.items()}
        with engine.begin() as conn:
            branch = effects_pull.enqueue(
                conn,
                repo=to.pull_request,
                base=to.base,
                files=files,
                title=title(proposals),
                body=body(proposals, text, collected),
                now=time.time(),
            )
        engine.dispose()
        said = f"a pull request from {branch} is in the outbox" if branch else "the same was proposed before"
        console.print(f"{to.pull_request}: {said}")
    if not (to.out or to.branch or to.pull_request):
        console.file.write(text)


def to_branch(folder: Path, branch: str, changed: Mapping[str, tuple[str, str]], subject: str, message: str) -> str:
    """Commits the files on a new branch of the git repository that holds ``folder``, from its HEAD; neither work tree
    nor index are touched. Returns the commit. Raises SettingsError with git's words."""

    def git(*args: str, given: str | None = None, index: str = "") -> str:
        env = {**os.environ, **({"GIT_INDEX_FILE": index} if index else {})}
        command = ["git", "-C", str(folder), *who, *args]
        done = subprocess.run(command, input=given, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SettingsError(
                f"git {args[0]}: {done.stderr.strip()}", "--branch needs a git repository with a commit"
            )
        return done.stdout.strip()

    who: tuple[str, ...] = ()
    if subprocess.run(
        ["git", "-C", str(folder), "var", "GIT_COMMITTER_IDENT"], capture_output=True, check=False
    ).returncode:
        who = (
            "-c",
            "user.name=relay",
            "-c",
            "user.email=relay@localhost",
        )  # a machine's account has no name of its own
    prefix = git("rev-parse", "--show-prefix")
    head = git("rev-parse", "HEAD")
    with tempfile.TemporaryDirectory(prefix="relay-index-") as tmp:
        index = f"{tmp}/index"
        git("read-tree", head, index=index)
        for name, (_, text) in changed.items():
            blob = git("hash-object", "-w", "--stdin", given=text)
            mode = (git("ls-tree", head, "--", name) or "100644").split()[0]
            git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{prefix}{name}", index=index)
        tree = git("write-tree", index=index)
    commit = git("commit-tree", tree, "-p", head, "-F", "-", given=f"{subject}\n\n{message}\n")
    git("update-ref", f"refs/heads/{branch}", commit, "0" * 40)  # not over a branch that is there
    return commit
