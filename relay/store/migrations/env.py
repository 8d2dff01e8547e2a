"""Alembic's entry: runs on the connection that ``relay.store.db.migrate`` hands over."""

from alembic import context

from relay.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,
    # each step is to hold its locks for itself; a caller with a transaction of its own (SQLite) has its reasons
    transaction_per_migration=not connection.in_transaction(),
)
with context.begin_transaction():
    context.run_migrations()
