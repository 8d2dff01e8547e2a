"""What only the pages need: who has signed in, and names to search."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Float, Index, String, Table, Text
from sqlalchemy.dialects import postgresql

from relay.store.tables.base import metadata

_Bytewise = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""Ordered by bytes on every database, so that a prefix is a range."""

web_session = Table(
    "web_session",
    metadata,
    Column("id", String(64), primary_key=True),  # sha256 of what the cookie holds
    Column("github_id", BigInteger, nullable=False),
    Column("login", String(255), nullable=False),
    Column("teams", JSON, nullable=False),  # org/team, case folded, of those that a setting names
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Index("ix_web_session_expires", "expires_at"),
)

test_name = Table(
    "test_name",
    metadata,
    Column("test", _Bytewise, primary_key=True),  # file::Class::method, as results have it
    Column("file_key", _Bytewise, nullable=False),  # name of the file without its folders, case folded
    Column("class_key", _Bytewise, nullable=False),
    Column("method_key", _Bytewise, nullable=False),
    Index("ix_test_name_file", "file_key"),
    Index("ix_test_name_class", "class_key"),
    Index("ix_test_name_method", "method_key"),
)
