"""The rules of migrations hold for every one there is, and each of them finds what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from migration_rules import problems

from relay.store.db import MIGRATIONS

HEAD = 'import sqlalchemy as sa\nfrom alembic import op\nrevision = "0002"\ndown_revision = "0001"\n\ndef upgrade():\n'


@pytest.mark.parametrize("path", sorted((MIGRATIONS / "versions").glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_every_migration_leaves_the_release_before_it_working(path: Path) -> None:
    assert problems(path) == []


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ('op.add_column("shard", sa.Column("x", sa.Integer(), nullable=False))', "needs a server_default"),
        ('op.add_column("shard", sa.Column("x", sa.String(), sa.ForeignKey("job.id")))', "a foreign key checks"),
        ('op.create_index("ix", "shard", ["state"])', "postgresql_concurrently=True"),
        ('op.create_index("ix", "shard", ["state"], postgresql_concurrently=True)', "beside_traffic()"),
        ('op.drop_column("shard", "worker")', "the release before still uses it"),
        ('op.drop_table("shard")', "the release before still uses it"),
        ('with contract("long ago"):\n        op.drop_column("shard", "worker")', "name the release"),
        ('op.alter_column("shard", "worker", type_=sa.Text())', "rewrites or renames"),
        ('op.rename_table("shard", "shards")', "rewrites or renames"),
        ('op.create_unique_constraint("uq", "shard", ["worker"])', "checks every row"),
        ('op.execute("update shard set worker = null")', "let a chore do it"),
        ('op.execute(sa.text("DELETE FROM shard"))', "let a chore do it"),
        ('op.execute("lock table shard")', "by Alembic's operations"),
        ('with op.batch_alter_table("shard") as b:\n        b.drop_column("worker")', "still uses it"),
    ],
)
def test_what_would_stop_others_is_found_with_its_place(tmp_path: Path, step: str, told: str) -> None:
    path = tmp_path / "0002_x.py"
    path.write_text(f"{HEAD}    {step}\n")
    (problem,) = problems(path)
    assert problem.startswith("0002_x.py:8:" if "batch" in step else "0002_x.py:7:")
    assert told in problem


def test_what_stops_nobody_passes(tmp_path: Path) -> None:
    path = tmp_path / "0002_x.py"
    path.write_text(
        HEAD
        + '    op.create_table("note", sa.Column("id", sa.Integer(), nullable=False))\n'
        + '    op.create_index("ix_note", "note", ["id"])\n'
        + '    op.add_column("shard", sa.Column("a", sa.Text()))\n'
        + '    op.add_column("shard", sa.Column("b", sa.Integer(), nullable=False, server_default="0"))\n'
        + "    with beside_traffic(op):\n"
        + '        op.create_index("ix", "shard", ["a"], postgresql_concurrently=True)\n'
        + '    with contract("v1.2.0"):\n'
        + '        op.drop_column("shard", "worker")\n'
    )
    assert problems(path) == []


def test_a_revision_that_is_no_number_is_found(tmp_path: Path) -> None:
    path = tmp_path / "abc.py"
    path.write_text(HEAD.replace("0002", "a1b2c3") + "    pass\n")
    assert problems(path) == ["abc.py:1: revision is not a number of four digits"]
