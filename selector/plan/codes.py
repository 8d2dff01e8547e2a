"""Who decides a planned test's mode, as reason codes (docs/reason-codes.md)."""

from __future__ import annotations

from typing import Final

CONFIG: Final = "plan-mode-config"
"""a person's entry"""
LIMIT: Final = "plan-mode-capability"
"""a limit of the device"""
HISTORY: Final = "plan-mode-history"
"""trunk's results"""
DEFAULT: Final = "plan-mode-default"
"""nobody says anything: it has to pass"""
DISPUTED: Final = "plan-mode-disputed"
"""a config's word holds, and the sheet or trunk speaks against it"""
NO_OPS: Final = "plan-device-limit"
"""left out: of the ops that its variants come from the sheet has none"""
NOT_LISTED: Final = "plan-ops-not-supported"
"""left out: of the ops that its variants come from the config's list of ops has none"""
