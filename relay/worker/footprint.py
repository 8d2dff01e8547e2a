"""How much memory the processes of a test take, measured from outside and in the time of one look.

Exact is what Linux calls the proportional set size: pages that several processes have count once. It is the kernel's
to refuse, though: a process that hid itself (and ours do, so that tests cannot read it) shows its pages to root alone.
So each process also has a figure that anybody may read: its resident size, less what it had from the process that
it was forked from when it was first seen. A process that was seen late is counted for less than it took, by no more
than its parent's size; ``RLIMIT_AS`` bounds each one all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from relay.worker import sandbox

FEW = 16
"""Up to this many processes are measured exactly: walking the pages of more takes longer than a fork bomb takes to
double."""


class Footprint:
    """Remembers what each process began with. One for a host and everything below it."""

    def __init__(self) -> None:
        self._inherited: dict[int, float] = {}

    def of(self, parents: Mapping[int, int], enough: float) -> float:
        """MiB that these processes (each with its parent, parents first) take together.

        A figure up to ``enough`` may be rough; one above it is exact where the kernel shows it.
        """
        sizes: dict[int, float] = {}
        for pid, parent in parents.items():
            sizes[pid] = size = sandbox.rss_mb(pid)
            if pid not in self._inherited:
                above = sizes[parent] if parent in sizes else sandbox.rss_mb(parent)
                self._inherited[pid] = min(size, above)
        self._inherited = {pid: self._inherited[pid] for pid in parents}  # a number is given again
        rough = sum(max(0.0, size - self._inherited[pid]) for pid, size in sizes.items())
        if rough <= enough or len(sizes) > FEW:
            return rough
        exact = proportional_mb(sizes)
        return rough if exact is None else exact


def proportional_mb(pids: Iterable[int]) -> float | None:
    """MiB of processes together, pages that several have counted once; None when the kernel does not show it of one.
    A process that is gone takes nothing."""
    total = 0.0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return None
        total += int(text.partition("\nPss:")[2].split()[0]) / 1024
    return total
