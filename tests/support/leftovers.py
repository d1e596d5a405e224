"""Looks for words in every place where an installation keeps something: tables, Redis, files."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import polars as pl
from redis.asyncio import Redis
from sqlalchemy import text

from mailsift.settings import Settings
from tests.support.parts import open_redis, transaction

_TABLES = text("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
_READS: dict[Any, Callable[[Redis, bytes], Awaitable[Any]]] = {
    b"string": lambda redis, key: redis.get(key),
    b"hash": lambda redis, key: redis.hgetall(key),
    b"list": lambda redis, key: redis.lrange(key, 0, -1),
    b"set": lambda redis, key: redis.smembers(key),
    b"zset": lambda redis, key: redis.zrange(key, 0, -1, withscores=True),
    b"stream": lambda redis, key: redis.xrange(key),
}


async def in_tables(settings: Settings, word: str) -> set[str]:
    """Return the tables that hold the word anywhere in a row, in text, JSON or bytes."""
    async with transaction(settings) as connection:
        tables = list((await connection.execute(_TABLES)).scalars())
        assert len(tables) > 10
        found = set()
        for table in tables:
            query = text(  # bytes are written as hexadecimal digits
                f'SELECT count(*) FROM "{table}" AS t WHERE position(:word in lower(t::text)) > 0'  # noqa: S608
                " OR position(:digits in t::text) > 0"
            )
            values = {"word": word.lower(), "digits": word.encode().hex()}
            if (await connection.execute(query, values)).scalar_one():
                found.add(table)
        return found


async def in_redis(settings: Settings, word: str) -> set[str]:
    """Return the Redis keys that hold the word in their name or value."""
    async with open_redis(settings) as redis:
        keys = [key async for key in redis.scan_iter(count=1_000)]
        return {key.decode(errors="replace") for key in keys if await _holds(redis, key, word)}


async def count_redis(settings: Settings) -> int:
    """Return how many keys there are to look at."""
    async with open_redis(settings) as redis:
        return int(await redis.dbsize())


async def _holds(redis: Redis, key: bytes, word: str) -> bool:
    kind = await redis.type(key)
    value = await _READS[kind](redis, key) if kind in _READS else b""
    text = repr((key, value)).lower()
    return word.lower() in text or word.encode().hex() in text


def places_below(folder: Path) -> list[Path]:
    """Return the files and folders below a folder; what goes away meanwhile is not there."""
    return [Path(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files)]


def in_files(folder: Path, word: str) -> set[str]:
    """Return the files below the folder that hold the word in their name, bytes or Parquet columns."""
    return {
        str(place.relative_to(folder))
        for place in places_below(folder)
        if word in place.name or (place.is_file() and _in_file(place, word))
    }


def _in_file(file: Path, word: str) -> bool:
    try:
        data = file.read_bytes()
    except FileNotFoundError:  # it has gone meanwhile
        return False
    if word.encode() in data:
        return True
    if not data.startswith(b"PAR1"):
        return False
    frame = pl.read_parquet(data)
    return word in json.dumps(frame.to_dict(as_series=False), default=str)
