"""Stage 1: which upstream tests are there, and which does a change reach? See docs/discover.md."""

from selector.discover.cache import DirectoryCache, InventoryCache, MemoryCache
from selector.discover.findings import Impact
from selector.discover.impact import Discovery, Hints, discover
from selector.discover.inventory import Inventory, Shelf, has_tests, take

__all__ = [
    "DirectoryCache",
    "Discovery",
    "Hints",
    "Impact",
    "Inventory",
    "InventoryCache",
    "MemoryCache",
    "Shelf",
    "discover",
    "has_tests",
    "take",
]
