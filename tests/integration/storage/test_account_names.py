"""One account by one name, however a keyboard, a file system or a terminal writes its letters."""

from __future__ import annotations

import unicodedata

from sqlalchemy import text

from mailsift.storage.database import Database
from mailsift.storage.sql import accounts

COMPOSED, APART = (unicodedata.normalize(form, "Café Zürich") for form in ("NFC", "NFD"))


async def test_a_name_is_one_however_its_letters_are_written(database_url: str) -> None:
    database = Database(database_url)
    async with database.begin() as connection:
        made = await accounts.ensure_account(connection, f" {APART.replace(' ', '  ')} ")
        for name in (COMPOSED, APART, f"{COMPOSED} "):
            assert await accounts.ensure_account(connection, name) == made
            assert await accounts.find(connection, name) == made
        found = await accounts.get(connection, made)
        assert found is not None
        assert found["name"] == COMPOSED
        assert await accounts.find(connection, "Cafe Zurich") is None
    await database.aclose()


async def test_an_account_that_was_named_otherwise_before_is_still_found(database_url: str) -> None:
    database = Database(database_url)
    async with database.begin() as connection:
        older = "INSERT INTO account (id, name) VALUES (gen_random_uuid(), :name) RETURNING id"
        made = (await connection.execute(text(older), {"name": APART})).scalar_one()
        for name in (COMPOSED, APART):
            assert await accounts.ensure_account(connection, name) == made
    await database.aclose()
