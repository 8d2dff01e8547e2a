"""Stage 1: which upstream tests are there, and which does a change reach? See docs/discover.md."""

from selector.discover.cache import DirectoryCache, InventoryCache, MemoryCache
from selector.discover.findings import Impact
from selector.discover.impact import Discovery, discover
from selector.discover.inventory import Inventory, has_tests, take

__all__ = [
    "DirectoryCache",
    "Discovery",
    "Impact",
    "Inventory",
    "InventoryCache",
    "MemoryCache",
    "discover",
    "has_tests",
    "take",
]
