"""Addresses of PostgreSQL and Redis, as their clients read them; no error repeats a value, maybe a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_UNREADABLE: Final = (
    "its host and port can’t be read; a password’s / ? # [ ] @ are written %2F %3F %23 %5B %5D %40"
)
_AUTHORITY: Final = re.compile(
    r"(?:[^:/@]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^/:@?]*)(?::[0-9]{1,5})?(?:/[^?]*)?(?:\?(.*))?", re.DOTALL
)
"""What SQLAlchemy reads of an address behind its scheme; the group is the options."""
_REDIS_PATH: Final = re.compile(r"(/[0-9]*)?")
_REDIS_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    # those that redis-py and Celery's broker library both understand, and how they may be written
    "redis": {},
    "rediss": {
        "ssl_ca_certs": ".+",
        "ssl_ca_data": ".+",
        "ssl_ca_path": ".+",
        "ssl_cert_reqs": "none|optional|required",
        "ssl_certfile": ".+",
        "ssl_check_hostname": ".+",
        "ssl_ciphers": ".+",
        "ssl_keyfile": ".+",
        "ssl_password": ".+",
    },
    "unix": {
        "client_name": ".+",
        "db": "[0-9]*",
        "password": ".*",
        "username": ".*",
    },
}


def check_database_url(url: str) -> None:
    """Accept what SQLAlchemy and libpq read.

    Raises:
        ValueError: says what cannot be read.
    """
    if not (read := _AUTHORITY.fullmatch(url.partition("://")[2])):
        raise ValueError(_UNREADABLE)
    if not read[1]:
        return
    from psycopg import pq  # noqa: PLC0415 - takes time, and few addresses have options

    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    if unknown := {name for name, _ in parse_qsl(read[1])} - known:
        raise ValueError(f"PostgreSQL’s client knows no option {', '.join(sorted(unknown))}")


def check_redis_url(url: str) -> None:
    """Accept what redis-py and Celery's broker library read.

    Raises:
        ValueError: says what cannot be read.
    """
    try:
        parts = urlsplit(url)
        port = None if parts.scheme == "unix" else parts.port
    except ValueError:  # quotes what it takes for the port
        raise ValueError(_UNREADABLE) from None
    if parts.scheme != "unix" and (port == 0 or not _REDIS_PATH.fullmatch(parts.path)):
        raise ValueError(_UNREADABLE)
    patterns = _REDIS_OPTIONS[parts.scheme]
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in patterns and "@" in parts.query:  # it may be of a password
            raise ValueError(_UNREADABLE)
        if name not in patterns:
            hint = "; the number of its database is its path, /3" if name == "db" else ""
            raise ValueError(f"{parts.scheme}:// has no option {name}{hint}")
        if not re.fullmatch(patterns[name], value):
            raise ValueError(f"its option {name} can’t be read")
