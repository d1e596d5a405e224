"""Objects in stores of other people: s3://, gs:// and az://."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.blobs import put_in_parts, read_whole, reason_of

READING: Final = timedelta(seconds=30)
"""In which a request ends that reads; one for the rest follows (mailsift.storage.blobs.read_whole)."""
WRITING: Final = timedelta(minutes=5)
"""In which a part is sent, one of two at a time, mostly of 5 MiB: the library does not see how far."""
_RETRIES: Final = 3
_PLAIN_HTTP: Final = "allow_http"  # beside the credentials of a store in one's own house
_SIGN: Final = re.compile(r"(\*\*/|\*+)")
_SIGNS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
_AZURE: Final = "az://"
_NO_CREDENTIALS: Final = re.compile("token request|/latest/api/token")
"""How it shows that there are none: then the library asks the cloud of this machine for some."""


async def read_object(url: str, config: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Yield an object piece by piece.

    Args:
        url: `s3://bucket/key`, `gs://bucket/key`, `az://account/container/key`; a key has no empty part.
        config: credentials and whatever else the store is to be told; what it lacks the environment has.

    Raises:
        MailsiftError: `place_not_found`, `place_refused`, `place_unavailable` (retryable).
    """
    store, key = _open(url, config, READING)
    with _store_errors():
        async for piece in read_whole(store, key):
            yield piece


async def write_object(url: str, config: Mapping[str, str], source: Path) -> None:
    """Write a file as an object; whoever reads it finds all of it or what was there before.

    Raises:
        MailsiftError: see `read_object`.
    """
    store, key = _open(url, config, WRITING)
    with _store_errors():
        await put_in_parts(store, key, source)


async def matching_objects(pattern: str, config: Mapping[str, str]) -> list[str]:
    """Return the URLs of the objects that match a pattern with `*` in its key, sorted.

    As in names of files `*` stands for letters within a folder, and `**/` for any folders or none.

    Raises:
        MailsiftError: see `read_object`.
    """
    bucket, prefix = _split(pattern.partition("*")[0].rpartition("/")[0])
    with _store_errors():
        found = await obstore.list(_store(bucket, config, READING), prefix or None).collect_async()
    key = "".join(_SIGNS.get(part) or re.escape(part) for part in _SIGN.split(_split(pattern)[1]))
    return sorted(f"{bucket}/{meta['path']}" for meta in found if re.fullmatch(key, meta["path"]))


def _open(url: str, config: Mapping[str, str], longest: timedelta) -> tuple[Any, str]:
    bucket, key = _split(url)
    with _store_errors():
        return _store(bucket, config, longest), key


def _split(url: str) -> tuple[str, str]:
    """Part a URL into its bucket or container and the object's key, which is what it says letter by letter.

    The library reads a path as browsers do: there `%2e%2e` leads out of a folder that an account may use.
    """
    names = url.split("/")
    depth = 4 if url.startswith(_AZURE) else 3
    return "/".join(names[:depth]), "/".join(names[depth:])


def _store(url: str, config: Mapping[str, str], longest: timedelta) -> Any:
    """Return a store whose requests take no longer than that, nor begin anew later."""
    if url.startswith(_AZURE):  # to the library its account is no part of a URL
        account, _, container = url.removeprefix(_AZURE).partition("/")
        url, config = f"{_AZURE}{container}", {"account_name": account, **config}
    known: Any = {name: value for name, value in config.items() if name != _PLAIN_HTTP}
    client: Any = {"timeout": longest} | ({_PLAIN_HTTP: True} if config.get(_PLAIN_HTTP) == "true" else {})
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": longest}
    return from_url(url, config=known or None, client_options=client, retry_config=retries)


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turn a store's errors into ours; their texts name requests, and may quote keys."""
    try:
        yield
    except FileNotFoundError:
        raise MailsiftError("place_not_found", "There is no such object.") from None
    except (PermissionDeniedError, UnauthenticatedError, PermissionError):
        raise MailsiftError("place_refused", "The store refuses our credentials.") from None
    except (BaseError, OSError) as error:
        text = f"The store does not do its part: {reason_of(error)}."
        if _NO_CREDENTIALS.search(str(error)):
            text = "There are no credentials for the store: set them in the environment, or in a connection."
        raise MailsiftError("place_unavailable", text, retryable=True) from None
    except BaseException as error:
        # A name the library does not know makes it panic, and what is raised then is no Exception.
        if isinstance(error, ValueError | TypeError) or type(error).__name__ == "PanicException":
            raise MailsiftError(
                "place_refused", "The connection has an option the store doesn’t know."
            ) from None
        raise
