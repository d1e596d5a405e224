"""The people of an installation: what the pages and `mailsift users` ask about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mailsift.accounts.links import Links
from mailsift.accounts.passwords import Passwords
from mailsift.accounts.people import Members
from mailsift.accounts.sessions import Sessions, SignInLimiter, SignInZones
from mailsift.pipeline.clock import Clock
from mailsift.storage.database import Database
from mailsift.storage.redis.rate_limit import RateLimit


@dataclass(frozen=True, slots=True)
class People:
    """Everything about people.

    Attributes:
        sessions: signing in and out, passwords.
        links: one-time links, invitations among them, are made and used.
        members: roles, retention, the audit log.
        limit: counts what must not be asked too often.
        public_url: how browsers reach the pages, without a slash at its end; "" = as the browser says.
    """

    sessions: Sessions
    links: Links
    members: Members
    limit: RateLimit
    public_url: str = ""


def make_people(
    database: Database,
    limit: RateLimit,
    *,
    clock: Clock,
    token: Callable[[int], bytes],
    public_url: str = "",
) -> People:
    """Put the services together.

    Args:
        database: the truth.
        limit: counts the tries to sign in.
        clock: the time.
        token: returns that many random bytes.
        public_url: how browsers reach the pages.
    """
    passwords = Passwords(token)
    sessions = Sessions(
        database=database,
        passwords=passwords,
        limiter=SignInLimiter(limit, SignInZones()),
        clock=clock,
        token=token,
    )
    return People(
        sessions=sessions,
        links=Links(database=database, passwords=passwords, sessions=sessions, clock=clock, token=token),
        members=Members(database=database),
        limit=limit,
        public_url=public_url,
    )
