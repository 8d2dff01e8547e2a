"""The sentences above a page: what is so, in words that somebody understands who never heard of this relay. Pure."""

from __future__ import annotations

from typing import Any

from relay.domain.words import plural
from relay.store.views_health import notes as health_notes
from relay.web.pages_text import duration, standing

Map = dict[str, Any]


def run_sentence(run: Map, counts: Map, jobs: list[Map]) -> str:
    """One true sentence about a dispatch: its verdict where there is one, else what is going on."""
    state, failing = run["state"], counts["failing"]
    if run["summary"]:
        return str(run["summary"])
    if state == "superseded":
        return "Superseded by a newer event of this pull request; nothing was concluded."
    if state == "failed":
        return f"The relay could not run this: {run['error'] or 'no reason was kept'}."
    if state == "selecting":
        return "Selecting the tests that this change can break."
    if state == "running" and run["executor"] == "workers":
        done = plural(counts["variants_done"], "variant") + " done"
        planned = f" {plural(counts['planned'], 'test')}" if counts["planned"] is not None else ""
        bad = f"{plural(failing, 'failure')} so far" if failing else "no failure so far"
        return f"Running{planned}: {done}, {bad}."
    if state == "confirming":
        return f"Running {plural(failing, 'failing variant')} again on the base commit, to tell old failures from new."
    if state == "verifying":
        return "Weighing the results."
    if state == "sending":
        return f"Waiting to be sent to {run['downstream']}."
    if state == "sent":
        return f"Sent to {run['downstream']}; its CI has not reported yet."
    ended = sum(1 for j in jobs if j["status"] == "completed")
    bad_jobs = [j["name"] for j in jobs if j["conclusion"] in ("failure", "timed_out")]
    told = f"{ended} of {plural(len(jobs), 'job')} completed" if jobs else "no job reported yet"
    if bad_jobs:
        told += (
            ", failing: " + ", ".join(bad_jobs[:3]) + (f" and {len(bad_jobs) - 3} more" if len(bad_jobs) > 3 else "")
        )
    return f"{run['downstream']}: {told}."


ORDER = {"failure": 0, "failed": 1, "neutral": 3, "success": 4, "superseded": 5}


def bad_first(dispatches: list[Map]) -> list[Map]:
    """What needs eyes first: failures, what is still open, neutral, success; superseded ones at the end. Of failures
    the surest: those that the base commit does not have, those of a backend that passed before, the others."""
    return sorted(dispatches, key=lambda d: (ORDER.get(standing(d), 2), _doubt(d)))


def _doubt(run: Map) -> int:
    """How likely a failure is not the change's; 0 of what did not fail."""
    if standing(run) != "failure" or run["executor"] == "workers":
        return 0
    return 1 if run["passed_before"] else 3 if run["streak"] else 2


PR_WORDS = ("failure", "running", "failed", "neutral", "success")


def pr_word(dispatches: list[Map]) -> str:
    """The word for all backends of a pull request together: what needs eyes first."""
    current = [d for d in dispatches if d["state"] != "superseded"]
    found = {d["conclusion"] or d["state"] for d in current if d["state"] in ("completed", "failed")}
    found |= {
        word for d in current if d["state"] not in ("completed", "failed") for word in ("running", d["conclusion"])
    }
    return next((word for word in PR_WORDS if word in found), "superseded")


def pr_sentence(dispatches: list[Map]) -> str:
    """The one line above all backends of a pull request. That a commit *breaks* a backend is said where the same tests
    pass on the base commit; a backend's own CI, which has no base run to compare with, *fails on* it."""
    current = [d for d in dispatches if d["state"] != "superseded"]
    if not current:
        return "Every run of this commit was superseded."
    words: dict[str, list[Map]] = {}
    for d in current:
        words.setdefault(standing(d) if d["state"] in ("completed", "failed") else "open", []).append(d)
    bad = words.get("failure", [])
    ours = [d for d in bad if d["executor"] == "workers"]
    parts = []
    if ours:
        tests = sum(d["failures"]["regressed"] for d in ours)
        parts.append(f"breaks {plural(tests, 'test') + ' on ' if tests else ''}{_names(ours)}")
    if len(ours) < len(bad):
        parts.append(f"fails on {_names([d for d in bad if d['executor'] != 'workers'])}")
    if words.get("open"):
        parts.append(f"is still running on {_names(words['open'])}")
    if words.get("failed"):
        parts.append(f"could not be run on {_names(words['failed'])}")
    if parts:
        return "This commit " + ", and ".join(parts) + "."
    if words.get("neutral"):
        return f"Nothing broke, but it is not a full answer for {_names(words['neutral'])}: see why below."
    if set(words) == {"success"}:
        return f"This commit is fine on {_names(words['success'])}."
    return f"{plural(len(current), 'run')} ended."


def _names(dispatches: list[Map]) -> str:
    seen = list(dict.fromkeys(d["downstream"] for d in dispatches))
    return (
        seen[0] if len(seen) == 1 else f"{len(seen)} backends ({', '.join(seen[:4])}{', …' if len(seen) > 4 else ''})"
    )


def stuck(queues: list[Map]) -> list[Map]:
    """Queues in which something waits and for which no worker is alive that takes shards."""
    return [queue for queue in queues if queue["queued"] and not queue["alive"]]


def no_worker(queue: Map) -> str:
    waiting = f"{plural(queue['queued'], 'shard')} in {queue['queue']}"
    if queue.get("held"):
        return f"{waiting}, and its worker takes none: {queue['held'][0]}"
    return f"{waiting} and no worker alive for it"


def status_notes(status: Map) -> list[str]:
    """What an operator should look at, most urgent first; empty when all is well."""
    notes = [no_worker(queue) for queue in stuck(status["queue"]["queues"])]
    if status["outbox"]["parked"]:
        notes.append(f"{plural(status['outbox']['parked'], 'effect')} parked: given up until somebody looks")
    wait = status["outbox"]["oldest_wait_s"]
    if wait and wait > 60:
        notes.append(f"an effect has waited {duration(wait)} to be sent")
    if status["unrouted"] > 20:
        notes.append(f"{plural(status['unrouted'], 'delivery', 'deliveries')} not routed yet")
    return notes + health_notes(status["chores"], status["places"])


def status_sentence(status: Map) -> str:
    """Whether the relay works and, if it does, whether its backends do."""
    notes = status_notes(status)
    if notes:
        return notes[0][0].upper() + notes[0][1:] + "."
    bad = [one for one in status["backends"] if one["fails"]]
    if bad:
        return f"The relay works. {_failed(bad, len(status['backends']))}"
    runs = len(status["runs"])
    return f"All is well: {plural(runs, 'run')} in progress." if runs else "All is well: nothing is running."


def _failed(bad: list[Map], known: int) -> str:
    """Of so many backends these failed: a run of one change, or several in a row, which tells of the backend."""
    row = [one for one in bad if in_a_row(one)]
    names = ", ".join(one["downstream"] for one in bad[:3]) if len(bad) <= 3 else ""
    said = f"{len(bad)} of {plural(known, 'backend')} failed in the last run" + (f": {names}" if names else "")
    if len(bad) == 1 and row:
        return f"{said}, and in the {row[0]['streak']['runs'] - 1} before it."
    return said + (f"; {len(row)} of them on several changes in a row." if row else ".")


def in_a_row(backend: Map) -> bool:
    """Whether it fails whatever the change is: its last runs, of more than one pull request."""
    return bool(backend["fails"] and backend["streak"]["runs"] > 1 and backend["streak"]["pulls"] != 1)


def status_look(status: Map, incidents: list[Map]) -> str:
    """good, warn or bad: the worse of the relay's own state and its backends'."""
    if (incidents and incidents[0]["state"] == "bad") or any(in_a_row(one) for one in status["backends"]):
        return "bad"
    return "warn" if incidents or status_notes(status) or any(one["fails"] for one in status["backends"]) else "good"


def recall_sentence(recall: Map) -> str:
    """Of all tests that changes broke, how many were selected; with the interval."""
    if recall["estimate"] is None:
        runs = recall["runs"]
        why = f"nothing broke in {plural(runs, 'exploring run')}" if runs else "no run has explored yet"
        return f"Recall is not known: {why}"
    low, high = recall["low"], recall["high"]
    return (
        f"Selection finds {recall['estimate']:.1%} of the tests that changes break "
        f"({low:.1%} to {high:.1%}, at {recall['confidence']:.0%})"
    )
