"""Where a test stands in the device's configs, for its page: read anew only when a file of the folder changed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from relay.errors import RelayError
from relay.services.device_configs import DeviceConfigs, load_device
from relay.settings import Settings
from selector.configs.explain import NONE, OTHER, Explanation, explain
from selector.errors import SelectorError
from selector.model import TestId

GROUPS = 12
NAMES = 6
MOST_TOLD = 500

_lock = threading.Lock()
_told: dict[str, tuple[DeviceConfigs, Explanation]] = {}
_loaded: dict[Path, tuple[object, DeviceConfigs]] = {}


def of_test(settings: Settings, test: str) -> dict[str, Any]:
    """``{folder, problem, groups: [{entry, mode, presence, reason, issue, why, ops, dtypes}], more}``: the entries that
    govern the test's variants. ``problem`` says why nothing can be told, "" otherwise."""
    folder = settings.configs_dir
    found: dict[str, Any] = {"folder": str(folder.name), "problem": "", "groups": [], "more": 0}
    try:
        device = device_of(folder)
        explained = _explained(device, test)
    except (RelayError, SelectorError, OSError) as exc:
        return {**found, "problem": str(exc)}
    groups = [
        {
            "entry": group.rule.source,
            "mode": group.rule.mode.value,
            "presence": group.presence,
            "reason": group.rule.reason,
            "issue": group.rule.issue,
            "why": group.why,
            "ops": _words([".".join(part for part in op if part) for op in group.ops], "op"),
            "dtypes": _words(list(group.dtypes), "dtype"),
        }
        for group in explained.groups
    ]
    groups.sort(key=lambda group: (group["presence"] == "dropped", group["entry"] is None))
    return {**found, "groups": groups[:GROUPS], "more": max(0, len(groups) - GROUPS)}


def _explained(device: DeviceConfigs, test: str) -> Explanation:
    """Asked once a test: it takes some 50 ms."""
    with _lock:
        known = _told.get(test)
        if known is not None and known[0] is device:
            return known[1]
    found = explain(device.configs, TestId.parse(test), device.capability)
    with _lock:
        if len(_told) >= MOST_TOLD:
            _told.clear()
        _told[test] = (device, found)
    return found


def _words(names: list[str], what: str) -> str:
    said = {OTHER: f"any other {what}", NONE: f"no {what}"}
    shown = [said.get(name, name) for name in names[:NAMES]]
    return ", ".join(shown) + (f" and {len(names) - NAMES} more" if len(names) > NAMES else "")


def device_of(folder: Path) -> DeviceConfigs:
    stamp = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.glob("*.yaml")))
    with _lock:
        known = _loaded.get(folder)
        if known is None or known[0] != stamp:
            known = _loaded[folder] = (stamp, load_device(folder))
        return known[1]
