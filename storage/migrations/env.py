"""Alembic's entry: run the migrations on the connection mailsift.storage.schema hands over."""

from __future__ import annotations

from alembic import context

from mailsift.storage.sql.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
