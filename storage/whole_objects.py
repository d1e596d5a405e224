"""Objects of a store are read to their end, in as many requests as that takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

if TYPE_CHECKING:
    from obstore import GetOptions


async def read_whole(store: ObjectStore, key: str, *, piece: int) -> AsyncIterator[bytes]:
    """Yield an object in pieces of so many bytes at least, but for the last of a request.

    The library ends a request after half a minute, whatever comes in it. One that has brought something is
    followed by one for the rest, while it is the same object.

    Raises:
        BaseError, OSError: of the library.
    """
    at, size, version = 0, 1, None
    while at < size:
        rest: GetOptions | None = {"range": {"offset": at}, "if_match": version} if at else None
        found = await obstore.get_async(store, key, options=rest)
        size, version, began = found.meta["size"], found.meta["e_tag"], at
        broken: Exception | None = None
        try:
            async for data in found.stream(min_chunk_size=piece):
                at += len(data)
                yield bytes(data)
        except (BaseError, OSError) as error:
            broken = error
        if at < size and (at == began or version is None):
            raise broken or OSError("the object ends early")
