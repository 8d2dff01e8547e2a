"""Results as JUnit XML and CTRF: every outcome with its reason, the entry that governs, and whether the device ran.

Takes the runner's result lines (docs/worker-api.md), with ``entry`` and ``tags`` added. Pure; needs no torch.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from selector.model import FAILED, Mode, Outcome

Line = Mapping[str, Any]
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fails(line: Line) -> bool:
    """Whether the outcome is a failure of the run; an unexpected pass is one when the mode is strict."""
    outcome = Outcome(line["outcome"])
    if outcome is Outcome.XPASSED:
        return bool(line["mode"] == Mode.XFAIL_STRICT)
    return outcome in FAILED


def engagement(line: Line) -> str:
    """``engaged``: the device ran kernels; ``unengaged``: the test ran and never touched it; ``not-run``;
    ``unmetered``."""
    if line["outcome"] in (Outcome.SKIPPED, Outcome.SELF_SKIPPED) and not line.get("kernels"):
        return "not-run"
    if line.get("kernels") is None:
        return "unmetered"
    return "engaged" if line["kernels"] else "unengaged"


def summary(lines: Sequence[Line]) -> dict[str, int]:
    """Counts by outcome, and of ``unengaged`` and ``unproven`` (skipped itself where success was mandatory)."""
    found = Counter(str(line["outcome"]) for line in lines)
    found["failures"] = sum(fails(line) for line in lines)
    found["unengaged"] = sum(engagement(line) == "unengaged" for line in lines)
    found["unproven"] = sum(
        line["outcome"] == Outcome.SELF_SKIPPED and line["mode"] == Mode.MANDATORY_SUCCESS for line in lines
    )
    return dict(found)


def junit(lines: Sequence[Line], errors: Iterable[Mapping[str, str]] = (), name: str = "relay") -> str:
    """JUnit XML: a suite a file, a case a variant; what has no place of its own in the format stands as properties.

    ``errors`` are the report's: a file that could not be imported is an error of its own.
    """
    root = ET.Element("testsuites", name=name)
    suites: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        suites[line["test"].partition("::")[0]].append(line)
    broken = {error["file"]: error["message"] for error in errors}
    totals, seconds = Counter[str](), 0.0
    for file in dict.fromkeys((*suites, *broken)):
        members = suites.get(file, [])
        suite = ET.SubElement(root, "testsuite", name=file)
        for line in members:
            _case(suite, line, file)
        counts = Counter(_kind(line) for line in members)
        counts["tests"] = len(members)
        if file in broken:
            case = ET.SubElement(suite, "testcase", classname=file, name="import", time="0")
            message = _clean(broken[file])
            ET.SubElement(case, "error", type="import", message=message.splitlines()[-1][:500]).text = message
            counts.update(tests=1, errors=1)
        spent = sum(float(line.get("seconds") or 0) for line in members)
        _count(suite, counts, spent)
        totals.update(counts)
        seconds += spent
    _count(root, totals, seconds)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def junit_parts(
    suites: Iterable[tuple[str, Sequence[Line]]], counts: Mapping[tuple[str, str], int], seconds: float, name: str
) -> Iterator[str]:
    """The same document piece by piece, for runs whose results do not fit into memory: ``suites`` are (file, lines),
    a file may come several times; ``counts`` are of all lines by (outcome, mode), ``seconds`` their sum."""
    totals = _totals(counts)
    root = ET.Element("testsuites", name=_clean(name))
    _count(root, totals, seconds)
    head = ET.tostring(root, encoding="unicode")
    yield '<?xml version="1.0" encoding="utf-8"?>\n' + head.removesuffix(" />").removesuffix("/>") + ">\n"
    for file, members in suites:
        suite = ET.Element("testsuite", name=_clean(file))
        for line in members:
            _case(suite, line, file)
        found = Counter(_kind(line) for line in members)
        found["tests"] = len(members)
        _count(suite, found, sum(float(line.get("seconds") or 0) for line in members))
        yield ET.tostring(suite, encoding="unicode") + "\n"
    yield "</testsuites>\n"


def _totals(counts: Mapping[tuple[str, str], int]) -> Counter[str]:
    totals = Counter[str]()
    for (outcome, mode), n in counts.items():
        totals[_kind({"outcome": outcome, "mode": mode})] += n
        totals["tests"] += n
    return totals


def _count(element: ET.Element, counts: Counter[str], seconds: float) -> None:
    for key in ("tests", "failures", "errors", "skipped"):
        element.set(key, str(counts[key]))
    element.set("time", f"{seconds:.6f}")


def _kind(line: Line) -> str:
    outcome = Outcome(line["outcome"])
    if outcome in (Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT):
        return "errors"
    if fails(line):
        return "failures"
    return "skipped" if outcome in (Outcome.SKIPPED, Outcome.SELF_SKIPPED, Outcome.XFAILED) else "passed"


def properties(line: Line) -> dict[str, str]:
    """What a report says about a variant beside its outcome."""
    found = {
        "outcome": line["outcome"],
        "mode": line["mode"],
        "reason": line.get("reason"),
        "entry": line.get("entry"),
        "engagement": engagement(line),
        "kernels": line.get("kernels"),
        "op": line.get("op"),
        "dtype": line.get("dtype"),
    }
    said = {key: str(value) for key, value in found.items() if value is not None and value != ""}
    return said | {f"tag.{tag}": "true" for tag in line.get("tags") or ()}


def _case(suite: ET.Element, line: Line, file: str) -> None:
    seconds = f"{float(line.get('seconds') or 0):.6f}"
    classname = f"{file.removesuffix('.py').replace('/', '.')}.{line['test'].split('::')[1]}"
    case = ET.SubElement(suite, "testcase", classname=classname, name=line["variant"], time=seconds, file=file)
    held = ET.SubElement(case, "properties")
    for key, value in properties(line).items():
        ET.SubElement(held, "property", name=_clean(key), value=_clean(value))
    kind, reason = _kind(line), _clean(line.get("reason") or "")
    message = _clean(line.get("message") or reason or line["outcome"])
    if kind == "skipped":
        words = {"xfailed": "pytest.xfail", "self_skipped": "self-skip"}.get(line["outcome"], "config")
        ET.SubElement(case, "skipped", type=words, message=reason or message)
    elif kind in ("errors", "failures"):
        if line["outcome"] == Outcome.XPASSED:
            message = f"passes, and is expected to fail: {reason}" if reason else "passes, and is expected to fail"
        element = ET.SubElement(case, "error" if kind == "errors" else "failure", type=line["outcome"])
        element.set("message", message.splitlines()[0][:500] if message else "")
        element.text = message
    if line.get("log_tail"):
        ET.SubElement(case, "system-err").text = _clean(line["log_tail"])


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return _NOT_XML.sub("�", text)


_CTRF_STATES = ("passed", "failed", "pending", "skipped", "other")
_CTRF = {
    Outcome.PASSED: "passed",
    Outcome.XPASSED: "passed",
    Outcome.SKIPPED: "skipped",
    Outcome.SELF_SKIPPED: "skipped",
    Outcome.XFAILED: "other",
}


def ctrf(lines: Sequence[Line], started_ms: int, stopped_ms: int, tool: str = "relay") -> dict[str, Any]:
    """A CTRF report (ctrf.io); times in ms since the epoch. ``rawStatus`` is our outcome, ``extra`` the rest."""
    tests = [_ctrf_test(line) for line in lines]
    counts = Counter(test["status"] for test in tests)
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "results": {
            "tool": {"name": tool},
            "summary": {
                "tests": len(tests),
                **{status: counts[status] for status in _CTRF_STATES},
                "start": started_ms,
                "stop": stopped_ms,
            },
            "tests": tests,
        },
    }


def _ctrf_test(line: Line) -> dict[str, Any]:
    return {
        "name": line["variant"],
        "status": _ctrf_status(line),
        "duration": round(float(line.get("seconds") or 0) * 1000),
        "rawStatus": line["outcome"],
        "suite": line["test"].split("::")[:2],
        "filePath": line["test"].partition("::")[0],
        "tags": list(line.get("tags") or ()),
        "message": line.get("message") or line.get("reason") or "",
        "extra": properties(line),
    }


def _ctrf_status(line: Line) -> str:
    return "failed" if fails(line) else _CTRF[Outcome(line["outcome"])]


def ctrf_parts(
    lines: Iterable[Line], counts: Mapping[tuple[str, str], int], started_ms: int, stopped_ms: int, tool: str = "relay"
) -> Iterator[str]:
    """The same report piece by piece; ``counts`` are of all ``lines`` by (outcome, mode)."""
    found = Counter[str]()
    for (outcome, mode), n in counts.items():
        found[_ctrf_status({"outcome": outcome, "mode": mode})] += n
    empty = ctrf([], started_ms, stopped_ms, tool)
    summary = empty["results"]["summary"]
    summary |= {"tests": sum(counts.values())} | {status: found[status] for status in _CTRF_STATES}
    head = json.dumps(empty)
    assert head.endswith('"tests": []}}')
    yield head.removesuffix("]}}")
    for n, line in enumerate(lines):
        yield (",\n" if n else "\n") + json.dumps(_ctrf_test(line))
    yield "\n]}}\n"
