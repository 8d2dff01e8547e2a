"""``relay config propose``: entries for what a run showed the device not to be able to do. A person merges them.

Only failures whose words name a limit of the device become entries; whatever else failed is listed, for someone to look
at: an entry for it would hide a fault.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from selector.configs import roundtrip
from selector.faults import KILLED, environment_fault
from selector.model import FAILED, TestId

_DTYPE = re.compile(r"does not support dtype (\w+)")
_KERNEL = re.compile(r"Could not run '(aten::[\w.]+)' with arguments from the '(Quantized|Sparse\w*)?(\w+)' backend")
_TORCH_WORDS = {
    "Byte": "uint8",
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Char": "int8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "ComplexHalf": "complex32",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
}


@dataclass(slots=True)
class Proposal:
    """``text`` is a config; ``entries`` how many it has; ``unexplained`` the tests that failed for no known limit."""

    text: str
    entries: int = 0
    files: int = 0
    unexplained: list[TestId] = field(default_factory=list)


def limit_of(line: Mapping[str, Any]) -> tuple[str, str] | None:
    """(mode, reason) for a failed result, when its words name a limit of the device. What a worker's environment
    spoilt names none, whatever else it says."""
    told = str(line.get("message") or "")
    if environment_fault(told, str(line.get("log_tail") or "")):
        return None
    if line["outcome"] == "crashed" and KILLED.search(told):
        return None
    if line["outcome"] == "crashed":
        return "skip", "ends the test process on this device"
    if line["outcome"] == "timed_out":
        return "skip", "does not come to an end in the time that a variant has on this device"
    message = str(line.get("message") or "")
    found = _DTYPE.search(message)
    if found:
        word = _TORCH_WORDS.get(found[1], found[1].lower())
        return "xfail", f"makes {word} tensors, which the device cannot hold"
    kernel = _KERNEL.search(message)
    if kernel and kernel[2]:
        kind = "quantised" if kernel[2] == "Quantized" else "sparse"
        return "xfail", f"makes {kind} tensors, which the device does not have"
    if kernel:
        base = kernel[1].removeprefix("aten::").partition(".")[0]
        return "xfail", f"needs the operator {base}, which the device does not have"
    return None


def propose(lines: Iterable[Mapping[str, Any]], extends: Sequence[str], *, evidence: str = "") -> Proposal:
    """A config of what ``lines`` (results of runs, docs/worker-api.md) showed, in the order of files and tests."""
    by_file: dict[str, dict[TestId, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        test = TestId.parse(str(line["test"]))
        by_file[test.file][test].append(line)
    found = Proposal("")
    files = CommentedSeq()
    for path in sorted(by_file):
        entries = _entries(by_file[path], found)
        entry = CommentedMap(path="${TORCH_ROOT}/" + path, unlisted_test_mode="mandatory_success")
        if evidence:
            entry["evidence"] = evidence
        if entries:
            entry["tests"] = CommentedSeq(entries)
        files.append(entry)
        found.entries += len(entries)
    found.files = len(files)
    suite = CommentedMap()
    if extends:
        suite["extends"] = CommentedSeq(extends)
    suite["files"] = files
    found.text = roundtrip.dump(CommentedMap(test_suite_config=suite))
    return found


def _entries(tests: Mapping[TestId, list[Mapping[str, Any]]], found: Proposal) -> list[CommentedMap]:
    whole: dict[tuple[str, str], list[str]] = defaultdict(list)
    scoped: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for test, variants in sorted(tests.items()):
        failed = [line for line in variants if line["outcome"] in FAILED]
        if not failed:
            continue
        limits = [limit_of(line) for line in failed]
        if None in limits:
            found.unexplained.append(test)
            continue
        modes = {limit[0] for limit in limits if limit is not None}
        reasons = list(dict.fromkeys(limit[1] for limit in limits if limit is not None))
        mode = "skip" if "skip" in modes else "xfail"
        reason = _together(reasons)
        name = f"{test.cls}::{test.method}"
        dtypes = _dtypes_that_fail(variants, failed)
        if mode == "xfail" and dtypes:
            scoped[mode, reason, dtypes].append(name)
        else:
            whole[mode, reason].append(name)
    entries = []
    for (mode, reason), names in sorted(whole.items()):
        entries.append(CommentedMap(names=CommentedSeq(names), mode=mode, reason=reason))
    listed = sorted({name for names in scoped.values() for name in names})
    if listed:
        entries.append(CommentedMap(names=CommentedSeq(listed)))
    for (mode, reason, dtypes), names in sorted(scoped.items()):
        include = CommentedSeq([CommentedMap(name=dtype) for dtype in dtypes])
        edits = CommentedMap(dtypes=CommentedMap(include=include))
        entries.append(CommentedMap(names=CommentedSeq(names), mode=mode, reason=reason, edits=edits))
    return entries


def _together(reasons: Sequence[str]) -> str:
    """One reason of several; those that differ in one word are said once."""
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for reason in sorted(reasons):
        found = re.fullmatch(r"(makes |needs the operator )(\w+)(.*)", reason)
        kinds[(found[1], found[3]) if found else (reason, "")].append(found[2] if found else "")
    said = []
    for (start, end), words in kinds.items():
        start = start.replace("operator ", "operators ") if len(words) > 1 else start
        said.append(f"{start}{', '.join(words[:3])}{' and others' if len(words) > 3 else ''}{end}")
    return "; ".join(said)


def _dtypes_that_fail(variants: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The dtypes of which every variant failed, when that is all that failed, and not everything did."""
    all_dtypes = {str(line["dtype"]) for line in variants if line.get("dtype")}
    bad = {str(line["dtype"]) for line in failed if line.get("dtype")}
    if not bad or bad == all_dtypes or any("," in dtype for dtype in bad):
        return ()
    fails = {id(line) for line in failed}
    if all((str(line.get("dtype")) in bad) == (id(line) in fails) for line in variants):
        return tuple(sorted(bad))
    return ()
