"""The release after this one, made of this one's sources: its migration widens tables as migrations may, and its
processes write what it brought."""

from __future__ import annotations

import shutil
from pathlib import Path

import migration_rules

ROOT = Path(__file__).resolve().parent.parent
WROTE = "the next release"
MIGRATION = '''"""What the next release brings: columns that this one does not fill, a table, an index."""

import sqlalchemy as sa
from alembic import op

from relay.store.migrating import beside_traffic

revision = "0002"
down_revision = "0001"


def upgrade():
    op.add_column("dispatch", sa.Column("made_by", sa.Text()))
    op.add_column("delivery", sa.Column("weight", sa.Integer(), nullable=False, server_default="1"))
    op.create_table("reading", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("value", sa.Float()))
    with beside_traffic(op):
        op.create_index("ix_delivery_weight", "delivery", ["weight"], postgresql_concurrently=True)
'''
COLUMN = '    Column("rerun_of", String(32)),  # the run whose plan this one runs again\n'


def make(to: Path) -> Path:
    """-> the folder for PYTHONPATH. ValueError when its migration could not be released."""
    for name in ("relay", "selector"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = to / "relay" / "store" / "migrations" / "versions" / "0002_next.py"
    path.write_text(MIGRATION, encoding="utf-8")
    if found := migration_rules.problems(path):
        raise ValueError("\n".join(found))
    tables = to / "relay" / "store" / "tables" / "work.py"
    text = tables.read_text(encoding="utf-8")
    if text.count(COLUMN) != 1:
        raise ValueError("dispatch has no such column to stand beside: choose another one")
    tables.write_text(
        text.replace(COLUMN, f'{COLUMN}    Column("made_by", Text, default="{WROTE}"),\n'), encoding="utf-8"
    )
    return to
