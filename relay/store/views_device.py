"""What a run's page says of the device: what its emulator counted, and which operators the modelled time went to."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import Connection, case, func, select

from relay.store.schema import result

STEPS = 16
MOST_COUNTED = 500
_counted: dict[tuple[str, str, str], dict[str, Any]] = {}
_lock = threading.Lock()
SHOWN = 12
"""Operators of the plot; the others are one bar together."""


def device_time_of(conn: Connection, id: str, side: str, *, over: bool) -> dict[str, Any]:
    """`device_time`; of a run that is over (``over``) it is counted once a process: nothing is added any more."""
    key = (str(conn.engine.url), id, side)
    with _lock:
        known = _counted.get(key) if over else None
    if known is not None:
        return known
    found = device_time(conn, id, side)
    if over:
        with _lock:
            if len(_counted) >= MOST_COUNTED:
                _counted.clear()
            _counted[key] = found
    return found


def device_time(conn: Connection, id: str, side: str = "head") -> dict[str, Any]:
    """Totals of a run's metered variants, and per operator (a test without one by its method) the modelled time.

    ``modelled_us`` are microseconds and an estimate; ``bytes`` are read and written in whole sticks; ``transfer_bytes``
    went to the device or came from it. ``variants`` is 0 when nothing was metered.
    """
    mine = (result.c.dispatch_id == id, result.c.side == side, result.c.modelled_us.is_not(None))

    def counted(name: str) -> Any:
        # as a float: a number of bytes is beyond PostgreSQL's integer
        return func.coalesce(func.sum(result.c.meter[name].as_float()), 0)

    total = conn.execute(
        select(
            func.count().label("variants"),
            func.coalesce(func.sum(result.c.modelled_us), 0.0).label("modelled_us"),
            func.coalesce(func.sum(result.c.kernels), 0).label("kernels"),
            (counted("bytes_read") + counted("bytes_written")).label("bytes"),
            counted("sticks").label("sticks"),
            (counted("h2d_bytes") + counted("d2h_bytes")).label("transfer_bytes"),
        ).where(*mine)
    ).one()
    what = func.coalesce(result.c.op, result.c.test)
    rows = conn.execute(
        select(
            what.label("what"),
            func.count().label("variants"),
            func.sum(result.c.kernels).label("kernels"),
            func.sum(result.c.modelled_us).label("modelled_us"),
        )
        .where(*mine)
        .group_by(what)
        .having(func.sum(result.c.modelled_us) > 0)
        .order_by(func.sum(result.c.modelled_us).desc(), what)
        .limit(SHOWN)
    ).all()
    bars = [
        {
            "what": row.what.rpartition("::")[2],
            "variants": row.variants,
            "kernels": int(row.kernels or 0),
            "modelled_us": float(row.modelled_us),
        }
        for row in rows
    ]
    shown = {key: sum(bar[key] for bar in bars) for key in ("variants", "kernels", "modelled_us")}
    rest = float(total.modelled_us) - shown["modelled_us"]
    if bars and rest > 1e-6 * float(total.modelled_us):
        bars.append(
            {
                "what": "all others",
                "variants": total.variants - shown["variants"],
                "kernels": int(total.kernels) - shown["kernels"],
                "modelled_us": rest,
            }
        )
    return {
        "variants": total.variants,
        "modelled_us": float(total.modelled_us),
        "kernels": int(total.kernels),
        "bytes": int(total.bytes),
        "sticks": int(total.sticks),
        "transfer_bytes": int(total.transfer_bytes),
        "by_operator": bars,
        "engagement": engagement(conn, mine) if total.variants else [],
    }


def engagement(conn: Connection, mine: tuple[Any, ...]) -> list[dict[str, Any]]:
    """How many variants ran how many device kernels, in powers of two: ``[{kernels: "4 to 7", variants}]``, from "0"
    (the device was never engaged) to the last step that has any."""
    step = case((result.c.kernels == 0, -1), *((result.c.kernels < 2 ** (n + 1), n) for n in range(STEPS)), else_=STEPS)
    rows = conn.execute(
        select(step.label("step"), func.count().label("n"))
        .where(*mine, result.c.kernels.is_not(None))
        .group_by(step)
        .order_by(step)
    )
    counted = {row.step: row.n for row in rows}
    return [{"kernels": _step(n), "variants": counted.get(n, 0)} for n in range(-1, max(counted, default=-2) + 1)]


def _step(n: int) -> str:
    if n < 1:
        return str(n + 1)
    return f"{2**n} to {2 ** (n + 1) - 1}" if n < STEPS else f"{2**STEPS} and more"
