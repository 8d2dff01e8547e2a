"""What /config reads: lines of the configs that are proposed to be removed. See relay.store.views_parts for the rules
that hold here as well."""

from __future__ import annotations

from sqlalchemy import Connection, select

from relay.store.schema import proposal


def dead(conn: Connection, device: str) -> dict[str, str]:
    """The place of a line (``file:number``) -> why it is proposed to be removed."""
    rows = conn.execute(
        select(proposal.c.subject, proposal.c.reason).where(
            proposal.c.device == device, proposal.c.state == "open", proposal.c.kind == "remove"
        )
    )
    return {row.subject: row.reason for row in rows}
