"""What a reviewer reads about a proposed change of configs. Pure.

Reasons hold words of upstream's tests: they are shown as they are and have no effect (relay.domain.check_output).
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.domain.check_output import inert
from selector.plan.proposals import Proposal

WORDS = {
    "promote": "passes and is expected to fail: taken out",
    "demote": "fails on trunk: expected to fail until",
    "limit": "the device cannot do it",
    "tolerance": "needs a tolerance",
    "quarantine": "fails now and then",
    "remove": "is of no use any more",
}
MOST = 200
DIFF_MOST = 40_000


def title(proposals: Sequence[Proposal]) -> str:
    """One line, without foreign words."""
    kinds = {p.kind: 0 for p in proposals}
    for one in proposals:
        kinds[one.kind] += 1
    said = ", ".join(f"{n} to {kind}" for kind, n in kinds.items())
    return f"Test configs: {said}"


def body(proposals: Sequence[Proposal], patch: str, collected: bool) -> str:
    """Markdown: what is proposed and why, what was checked, what to do, and the patch."""
    rows = [
        f"| <code>{inert(p.subject, 500)}</code> | {inert(WORDS[p.kind])} | {inert(p.reason)} | "
        f"{inert('; '.join(p.evidence))} | {inert(p.until) or '-'} |"
        for p in proposals[:MOST]
    ]
    more = f"\n\n{len(proposals) - MOST} more are in the patch." if len(proposals) > MOST else ""
    checked = "- [x] `relay config lint`: no new problem, and no other test changes its mode"
    imported = f"- [{'x' if collected else ' '}] every file is imported under the new configs"
    fence = "~~~~"
    while fence in patch:
        fence += "~"
    shown = patch if len(patch) <= DIFF_MOST else patch[:DIFF_MOST] + "\n…"
    return "\n".join(
        [
            "Proposed from results; nothing merges this but you.",
            "",
            "| test | what | why | evidence | until |",
            "|---|---|---|---|---|",
            *rows,
            more,
            "",
            checked,
            imported,
            "- [ ] each reason is one that you would give: a limit of the device, and not a fault that it hides",
            "",
            "To take part of it, edit the branch; to refuse it, close this: it is not opened again for the same lines.",
            "",
            f"{fence}diff",
            shown.rstrip("\n"),
            fence,
        ]
    )
