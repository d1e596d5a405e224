"""Alembic's entry: run the migrations on the connection mailsift.storage.schema hands over.

What a migration executes may be many statements: none has parameters.
"""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"].execution_options(no_parameters=True)
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
