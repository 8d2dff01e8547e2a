"""The migrations build exactly the tables that the code describes."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from relay.store.db import migrate, open_engine
from relay.store.schema import metadata


def test_migrated_database_has_no_difference_to_the_schema(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'relay.sqlite3'}")
    migrate(engine)
    migrate(engine)  # a second process that starts later changes nothing
    with engine.connect() as conn:
        diff = compare_metadata(MigrationContext.configure(conn), metadata)
    assert diff == []
