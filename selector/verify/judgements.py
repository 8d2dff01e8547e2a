"""What can be said of one failure, by code: its kind, and whether it counts against the change."""

from __future__ import annotations

from collections.abc import Mapping

from selector.model import FailureKind

BLAMES: Mapping[str, FailureKind] = {
    "verify-regression": "regression",
    "verify-import-regression": "regression",
    "verify-made-flaky": "regression",
    "verify-new-test-fails": "unconfirmed",
    "verify-xpassed-strict": "regression",
}
"""The change's: the verdict is a failure."""
EXONERATIONS: Mapping[str, FailureKind] = {
    "verify-pre-existing": "pre-existing",
    "verify-broken-on-trunk": "broken-on-trunk",
    "verify-flaky": "flaky",
    "verify-flaky-on-trunk": "flaky",
    "verify-quarantined": "flaky",
}
"""Not the change's, by runs without it or by a person: the verdict may be success."""
OPEN: Mapping[str, FailureKind] = {
    "verify-infrastructure": "infrastructure",
    "verify-lab-conflict": "conflict",
    "verify-unconfirmed": "unconfirmed",
    "verify-flaky-unproven": "unconfirmed",
    "verify-device-limit": "device-limit",
}
"""Not known to be the change's, and not known to be somebody else's: the verdict is neutral."""
JUDGEMENTS: Mapping[str, FailureKind] = {**BLAMES, **EXONERATIONS, **OPEN}
