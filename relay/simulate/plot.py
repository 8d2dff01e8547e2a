"""The simulation as a picture: waits and what they cost over the size of the pool. Needs the extra ``plots``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay.errors import SettingsError
from relay.simulate.outcome import Outcome


def plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """Writes a picture of the kind that ``path``'s ending names (svg, png, pdf). SettingsError where it cannot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise SettingsError(f"simulate: no plot: {exc}", "install the extra: pip install 'crcr-relay[plots]'") from exc
    pools = [one.scenario.pool for one in outcomes]
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    waits, parts = figure.subplots(1, 2, width_ratios=[3, 2])
    for label, style, share in (("p50", "-", "p50"), ("p95", "--", "p95"), ("p99", ":", "p99")):
        waits.plot(
            pools,
            _minutes([getattr(o.first, share) for o in outcomes]),
            "o" + style,
            c="#1f5fbf",
            label=f"first test, {label}",
        )
        waits.plot(
            pools,
            _minutes([getattr(o.verdict, share) for o in outcomes]),
            "s" + style,
            c="#b3452b",
            label=f"verdict, {label}",
        )
    waits.set(xscale="log", yscale="log", xlabel="emulator workers", ylabel="minutes after the push")
    waits.set_xticks(pools, [str(one) for one in pools])
    waits.minorticks_off()
    waits.grid(visible=True, alpha=0.25)
    waits.legend(fontsize=7, ncols=3, frameon=False)
    for name in sorted({limit.name for limit in outcomes[0].limits()}):
        loads = [next(limit.load for limit in one.limits() if limit.name == name) for one in outcomes]
        parts.plot(pools, [100 * load for load in loads], "o-", ms=3, label=name)
    parts.axhline(100, c="#888", lw=1)
    parts.set(xscale="log", yscale="log", xlabel="emulator workers", ylabel="% of what the part has, in its worst hour")
    parts.set_xticks(pools, [str(one) for one in pools])
    parts.minorticks_off()
    parts.grid(visible=True, alpha=0.25)
    parts.legend(fontsize=7, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as exc:
        raise SettingsError(
            f"simulate: {path}: {exc}", "name a file that can be written, ending in .svg or .png"
        ) from exc


def _minutes(seconds: Sequence[float]) -> list[float]:
    return [max(one, 0.6) / 60 for one in seconds]
