"""Runs the migrations on the connection of ``store.migrate``; Alembic executes this file."""

from alembic import context

from trainshed.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
