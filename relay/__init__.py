"""The cross-repository CI relay. Rooms and what each may import: docs/architecture.md."""

__version__ = "0.1.0"
