"""Applies the YAML reuse configs to upstream's own test files at run time. See docs/reuse.md."""
