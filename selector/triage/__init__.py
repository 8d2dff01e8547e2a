"""Stage 2: does a test engage the device at all, and is it for this device? See docs/triage.md."""

from selector.triage.stage import Triage, triage
from selector.triage.subject import Category, Opinion, Ruling, Subject

__all__ = ["Category", "Opinion", "Ruling", "Subject", "Triage", "triage"]
