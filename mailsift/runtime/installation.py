"""The servers this command works with: the configured ones, or the embedded ones for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from mailsift.runtime.embedded import EmbeddedServers
from mailsift.settings import Settings
from mailsift.storage.schema import migrate


@contextmanager
def installation(
    settings: Settings, *, database: bool = True, forks: bool = False, watched: bool = False
) -> Iterator[Settings]:
    """Give settings whose DATABASE_URL and REDIS_URL are set, and start what is needed for it.

    A server of ours that dies meanwhile is started again.

    Args:
        settings: as read from the environment.
        database: False for a command that needs only Redis.
        forks: True for a command whose process forks: another one watches the servers then.
        watched: True where the command that started this one watches them already.

    Raises:
        MailsiftError: `bad_settings`, `embedded_missing`, `embedded_failed`, `database_unavailable`.
    """
    need_postgres = database and settings.database_url is None
    need_valkey = settings.redis_url is None
    if not need_postgres and not need_valkey:
        yield settings
        return
    settings.make_home()
    with EmbeddedServers(settings.home, postgres=need_postgres, valkey=need_valkey) as servers:
        found: dict[str, SecretStr] = {}
        if need_postgres:
            migrate(servers.database_url)
            found["database_url"] = SecretStr(servers.database_url)
        if need_valkey:
            found["redis_url"] = SecretStr(servers.redis_url)
        if not watched:
            servers.keep_up(apart=forks)
        yield settings.model_copy(update=found)
