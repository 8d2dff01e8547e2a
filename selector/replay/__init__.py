"""Measures selection: faults that are put into torch, which tests find them, and which of those a strategy selects.

Pure, as all of `selector`: `relay.replay` runs what is asked for here. See docs/selection.md.
"""
