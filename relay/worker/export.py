"""A shard's results for other programs: JUnit XML, and CTRF (Common Test Report Format, JSON). Pure."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FAILED = frozenset({"failed", "crashed", "timed_out"})
SKIPPED = frozenset({"skipped", "self_skipped", "xfailed"})
_CTRF = {"passed": "passed", "failed": "failed", "error": "failed", "crashed": "failed", "timed_out": "failed",
         "skipped": "skipped", "self_skipped": "skipped", "xfailed": "passed", "xpassed": "passed"}  # fmt: skip
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def properties(line: Mapping[str, Any]) -> dict[str, str]:
    """What of a result has no place of its own in either format: mode, reason, the config's entry, engagement."""
    kernels = line.get("kernels")
    found = {
        "outcome": line["outcome"],
        "mode": line["mode"],
        "reason": line.get("reason"),
        "entry": line.get("entry"),
        "engaged": None if kernels is None else str(kernels > 0).lower(),
        "kernels": None if kernels is None else str(kernels),
        "op": line.get("op"),
        "dtype": line.get("dtype"),
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _failing(line: Mapping[str, Any]) -> bool:
    return line["outcome"] in FAILED or line["outcome"] == "error" or _strict_pass(line)


def _strict_pass(line: Mapping[str, Any]) -> bool:
    return bool(line["outcome"] == "xpassed" and line["mode"] == "xfail_strict")


def junit(lines: Sequence[Mapping[str, Any]], errors: Iterable[Mapping[str, str]] = ()) -> bytes:
    """JUnit XML: a ``testsuite`` a file, a ``testcase`` a variant; a file that was not imported is an error of its own.

    ``lines`` are results as in docs/worker-api.md, ``errors`` the report's.
    """
    root = ET.Element("testsuites", name="relay")
    suites: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        suites.setdefault(line["test"].partition("::")[0], []).append(line)
    broken = {error["file"]: error["message"] for error in errors}
    for file in dict.fromkeys((*suites, *broken)):
        cases = suites.get(file, [])
        suite = ET.SubElement(root, "testsuite", name=file)
        for line in cases:
            _case(suite, file, line)
        if file in broken:
            case = ET.SubElement(suite, "testcase", classname=file, name="import", time="0")
            ET.SubElement(case, "error", message=_text(broken[file], 300)).text = _text(broken[file])
        counts = {
            "tests": len(cases) + (file in broken),
            "failures": sum(c["outcome"] in FAILED or _strict_pass(c) for c in cases),
            "errors": sum(c["outcome"] == "error" for c in cases) + (file in broken),
            "skipped": sum(c["outcome"] in SKIPPED for c in cases),
        }
        suite.attrib.update({name: str(count) for name, count in counts.items()})
        suite.set("time", f"{sum(c['seconds'] for c in cases):.6f}")
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _case(suite: ET.Element, file: str, line: Mapping[str, Any]) -> None:
    cls = line["test"].split("::")[1]
    name = f"{file.removesuffix('.py').replace('/', '.')}.{cls}"
    case = ET.SubElement(
        suite, "testcase", classname=name, name=line["variant"], time=f"{line['seconds']:.6f}", file=file
    )
    held = ET.SubElement(case, "properties")
    for key, value in properties(line).items():
        ET.SubElement(held, "property", name=key, value=_text(value, 2000))
    message = line.get("message") or line.get("reason") or line["outcome"]
    if line["outcome"] == "error":
        ET.SubElement(case, "error", message=_text(message, 300)).text = _text(message)
    elif _failing(line):
        what = "passes, and is expected to fail" if _strict_pass(line) else message
        ET.SubElement(case, "failure", type=line["outcome"], message=_text(what, 300)).text = _text(what)
    elif line["outcome"] in SKIPPED:
        ET.SubElement(case, "skipped", message=_text(message, 300))
    if line.get("log_tail"):
        ET.SubElement(case, "system-out").text = _text(line["log_tail"])


def _text(value: str, limit: int = 1 << 16) -> str:
    return _NOT_XML.sub("�", value)[:limit]


def ctrf(lines: Sequence[Mapping[str, Any]], start_ms: int, stop_ms: int, tool: str) -> dict[str, Any]:
    """CTRF: times are milliseconds since 1970, durations milliseconds."""
    tests = []
    for line in lines:
        status = "failed" if _strict_pass(line) else _CTRF[line["outcome"]]
        test: dict[str, Any] = {
            "name": line["variant"],
            "status": status,
            "duration": round(line["seconds"] * 1000),
            "rawStatus": line["outcome"],
            "suite": line["test"].split("::")[:2],
            "filePath": line["test"].partition("::")[0],
            "extra": properties(line),
        }
        if line.get("message"):
            test["message"] = line["message"]
        tests.append(test)
    counted = {status: sum(t["status"] == status for t in tests) for status in ("passed", "failed", "skipped")}
    summary = {"tests": len(tests), **counted, "pending": 0, "other": 0, "start": start_ms, "stop": stop_ms}
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "results": {"tool": {"name": tool}, "summary": summary, "tests": tests},
    }
