"""Runs migrations on the connection that `schedulearn.store.schema` hands over, inside its transaction."""

from alembic import context

from schedulearn.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # SQLite has it too: the whole way up is one transaction
    compare_type=True,
)
context.run_migrations()
