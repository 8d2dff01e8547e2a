"""A verdict as plain maps, for a database column, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from selector.model import (
    Cause,
    CauseGroup,
    Conclusion,
    Decision,
    Evidence,
    FailureKind,
    NotExercised,
    Outcome,
    Stage,
    TestId,
    Verdict,
)


def to_map(verdict: Verdict) -> dict[str, Any]:
    """The verdict as maps, lists, texts and numbers."""
    return {
        "conclusion": verdict.conclusion.value,
        "code": verdict.code,
        "sentence": verdict.sentence,
        "counts": dict(verdict.counts),
        "causes": [_cause(c) for c in verdict.causes],
        "not_exercised": [{"path": n.path, "reason": n.reason} for n in verdict.not_exercised],
        "decisions": [_decision(d) for d in verdict.decisions],
        "warnings": list(verdict.warnings),
        "groups": [
            {"id": g.id, "kind": g.kind, "title": g.title, "frame": g.frame, "keys": list(g.keys)}
            for g in verdict.groups
        ],
    }


def from_map(data: Mapping[str, Any]) -> Verdict:
    """What :func:`to_map` made. Raises ValueError that names what is missing or wrong."""
    try:
        return Verdict(
            conclusion=Conclusion(data["conclusion"]),
            code=str(data["code"]),
            sentence=str(data["sentence"]),
            counts={str(k): int(v) for k, v in data["counts"].items()},
            causes=tuple(_to_cause(c) for c in data["causes"]),
            not_exercised=tuple(NotExercised(n["path"], n["reason"]) for n in data["not_exercised"]),
            decisions=tuple(_to_decision(d) for d in data["decisions"]),
            warnings=tuple(str(w) for w in data["warnings"]),
            groups=tuple(
                CauseGroup(g["id"], g["kind"], g["title"], g["frame"], tuple(g["keys"])) for g in data.get("groups", ())
            ),
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a verdict: {e.__class__.__name__}: {e}") from e


def _cause(c: Cause) -> dict[str, Any]:
    return {
        "key": c.key,
        "test": str(c.test),
        "kind": c.kind,
        "outcome": c.outcome.value,
        "message": c.message,
        "codes": list(c.codes),
        "changes": list(c.changes),
        "why_selected": c.why_selected,
    }


def _to_cause(c: Mapping[str, Any]) -> Cause:
    if c["kind"] not in get_args(FailureKind):
        raise ValueError(f"not a verdict: unknown kind of failure {c['kind']!r}")
    return Cause(
        key=c["key"],
        test=TestId.parse(c["test"]),
        kind=c["kind"],
        outcome=Outcome(c["outcome"]),
        message=c["message"],
        codes=tuple(c["codes"]),
        changes=tuple(c["changes"]),
        why_selected=c["why_selected"],
    )


def _decision(d: Decision) -> dict[str, Any]:
    facts = [
        {"kind": e.kind, "detail": e.detail, "path": e.path, "line": e.line, "symbol": e.symbol} for e in d.evidence
    ]
    return {
        "stage": d.stage.value,
        "subject": d.subject,
        "verdict": d.verdict,
        "code": d.code,
        "reason": d.reason,
        "evidence": facts,
        "confidence": d.confidence,
        "by": d.by,
    }


def _to_decision(d: Mapping[str, Any]) -> Decision:
    return Decision(
        stage=Stage(d["stage"]),
        subject=d["subject"],
        verdict=d["verdict"],
        code=d["code"],
        reason=d["reason"],
        evidence=tuple(Evidence(e["kind"], e["detail"], e["path"], e["line"], e["symbol"]) for e in d["evidence"]),
        confidence=float(d["confidence"]),
        by=d["by"],
    )
