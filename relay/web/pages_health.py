"""What the status page says of the parts that a relay lives by: one line each, and what to do where one is not well.
Pure: from the view of relay.store.views.status to words."""

from __future__ import annotations

from typing import Any

from relay.domain.words import plural
from relay.web.pages_sentences import no_worker, stuck
from relay.web.pages_text import duration

Map = dict[str, Any]
OK, OFF, WARN, BAD = "ok", "off", "warn", "bad"
SLOW_S = 60.0
"""An effect or a shard that waits longer is worth a look."""
BUSY = 0.8
"""Of GitHub's budget: more than that in one minute."""


def parts(status: Map, *, hud: bool, github_budget: int, allowlist: str, allowlist_problem: str | None) -> list[Map]:
    """``[{name, state, says, do}]``: broker, workers, GitHub, HUD, sweeper, allowlist, nightly; ``state`` is ok, off,
    warn or bad, ``do`` what an operator does about it, "" where nothing is to do."""
    return [
        _broker(status),
        _workers(status),
        _github(status, github_budget),
        _hud(status, hud),
        _sweeper(status),
        _allowlist(status, allowlist, allowlist_problem),
        _nightly(status),
    ]


def incidents(found: list[Map]) -> list[Map]:
    """The parts that are not well, the worst first."""
    return sorted((one for one in found if one["state"] in (WARN, BAD)), key=lambda one: one["state"] != BAD)


def _part(name: str, state: str, says: str, do: str = "") -> Map:
    return {"name": name, "state": state, "says": says, "do": do}


def _chore(status: Map, name: str) -> Map | None:
    return next((one for one in status["chores"] if one["name"] == name), None)


def _broker(status: Map) -> Map:
    told = _chore(status, "broker")
    if told is None:
        return _part(
            "Broker", OFF, "no pump has said anything yet", "start the pump: relay up, or python -m relay.pump"
        )
    if told["error"]:
        return _part("Broker", BAD, f"does not answer: {told['error']}", "nothing is lost: work waits in the database")
    if told["late_s"]:
        silent = duration(told["late_s"])
        return _part("Broker", BAD, f"the pump has not been heard of, late by {silent}", "see whether it runs")
    return _part("Broker", OK, "takes work")


def _workers(status: Map) -> Map:
    queue = status["queue"]
    lonely = stuck(queue["queues"])
    alive = sum(one["alive"] for one in queue["queues"])
    if lonely:
        do = "mend that, or start another" if lonely[0].get("held") else "start one"
        return _part("Workers", BAD, no_worker(lonely[0]), f"{do}: python -m relay.worker")
    held = [why for one in queue["queues"] for why in one.get("held", ())]
    if held:
        says = f"{plural(len(held), 'worker takes', 'workers take')} no shards: {held[0]}"
        return _part("Workers", WARN, says, "others go on; mend it")
    wait = queue["oldest_wait_s"]
    if wait is not None and wait > SLOW_S * 5:
        return _part("Workers", WARN, f"a shard has waited {duration(wait)}", "more workers would shorten it")
    if not alive:
        return _part("Workers", OFF, "none alive, and nothing waits for one")
    return _part("Workers", OK, f"{alive} alive")


def _github(status: Map, budget: int) -> Map:
    limited = [place for place in status["places"] if place["code"] == "rate-limited"]
    closed = [place for place in status["places"] if place["code"] != "rate-limited"]
    if closed:
        says = f"nothing is sent to {closed[0]['key']} ({closed[0]['code']})"
        more = f" and {plural(len(closed) - 1, 'more place', 'more places')}" if len(closed) > 1 else ""
        return _part("GitHub", BAD, says + more, "see the list below: it opens again by itself once an effect arrives")
    if limited:
        return _part("GitHub", WARN, f"limits us at {limited[0]['key']}", "it goes on by itself")
    used = max((one["used"] for one in status["budget"]), default=0)
    waiting = _outbox(status, ("dispatch", "check_run", "comment", "cancel"), "due")
    if used >= BUSY * budget:
        return _part("GitHub", WARN, f"{used} of {budget} effects of this minute are used", "the rest waits its turn")
    late = max((one["oldest_s"] for one in waiting), default=0.0)
    if late > SLOW_S:
        return _part("GitHub", WARN, f"an effect has waited {duration(late)} to be sent", "see /outbox")
    return _part("GitHub", OK, f"{used} of {budget} effects used this minute")


def _hud(status: Map, hud: bool) -> Map:
    if not hud:
        return _part("HUD", OFF, "hud_url is not set: no row is sent")
    parked = sum(one["count"] for one in _outbox(status, ("hud",), "parked"))
    if parked:
        return _part("HUD", BAD, f"{plural(parked, 'row')} given up until somebody looks", "relay outbox retry")
    waiting = _outbox(status, ("hud",), "due")
    late = max((one["oldest_s"] for one in waiting), default=0.0)
    if late > SLOW_S:
        return _part("HUD", WARN, f"a row has waited {duration(late)}", "it is sent once the HUD answers")
    return _part(
        "HUD", OK, f"{plural(sum(one['count'] for one in waiting), 'row')} on its way" if waiting else "all told"
    )


def _outbox(status: Map, kinds: tuple[str, ...], state: str) -> list[Map]:
    return [one for one in status["outbox"]["kinds"] if one["kind"] in kinds and one["state"] == state]


def _sweeper(status: Map) -> Map:
    told = _chore(status, "deadlines")
    if told is None:
        return _part("Sweeper", OFF, "has not swept yet")
    if told["error"]:
        return _part("Sweeper", BAD, f"failed: {told['error']}", "runs that wait too long are not ended meanwhile")
    if told["late_s"]:
        return _part("Sweeper", BAD, f"late by {duration(told['late_s'])}", "the pump does it: see whether it runs")
    return _part("Sweeper", OK, f"{plural(sum(status['deadlines'].values()), 'wait')} ended so far")


def _allowlist(status: Map, setting: str, problem: str | None) -> Map:
    if not setting:
        return _part("Allowlist", WARN, "allowlist is not set: nothing is sent to anybody", "docs/allowlist.md")
    told = _chore(status, "allowlist")
    wrong = problem or (told["error"] if told is not None else None)
    if wrong:
        return _part("Allowlist", BAD, f"is broken, the last good one is in force: {wrong}", "mend it")
    known = status["allowlist"]
    return _part("Allowlist", OK, f"version {known['digest'][:8]}" if known else "not asked for yet")


def _nightly(status: Map) -> Map:
    night = status["nightly"]
    if night is None:
        return _part("Last nightly", OFF, "nightly_ref is not set, or no night is over yet")
    says = night["summary"] or night["error"] or night["state"]
    if night["state"] == "failed":
        return _part("Last nightly", WARN, f"{night['night']}: {says}", "relay upgrade runs it again")
    if night["good"] is False:
        return _part("Last nightly", BAD, f"{night['night']}: {says}", "see /upgrade")
    return _part("Last nightly", OK, f"{night['night']}: {says}")
