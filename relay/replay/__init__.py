"""Runs what `selector.replay` asks for: faults in a process with torch, upstream's tests, commits."""
