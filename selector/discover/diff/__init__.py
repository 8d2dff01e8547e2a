"""Two releases side by side: what became of every test. See docs/upgrade.md."""

from selector.discover.diff.compare import Difference, Side, TestChange, compare
from selector.discover.diff.entries import EntryChange, compare_entries

__all__ = ["Difference", "EntryChange", "Side", "TestChange", "compare", "compare_entries"]
