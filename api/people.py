"""The people of an installation: what the pages and `mailsift users` ask about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from api.arrivals import Arrivals
from api.links import Links
from api.members import Members
from api.passwords import Passwords
from api.sessions import Sessions, SignInZones, Turnstile
from pipeline.clock import Clock
from storage.database import Database
from storage.rate_limit import RateLimit


@dataclass(frozen=True, slots=True)
class People:
    """Everything about people.

    Attributes:
        sessions: signing in and out, passwords.
        links: one-time links are made.
        arrivals: one-time links are used.
        members: roles, retention, the audit log.
        limit: counts what must not be asked too often.
        public_url: how browsers reach the pages, without a slash at its end; "" = as the browser says.
    """

    sessions: Sessions
    links: Links
    arrivals: Arrivals
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
        turnstile=Turnstile(limit, SignInZones()),
        clock=clock,
        token=token,
    )
    return People(
        sessions=sessions,
        links=Links(database=database, clock=clock, token=token),
        arrivals=Arrivals(database=database, passwords=passwords, sessions=sessions, clock=clock),
        members=Members(database=database),
        limit=limit,
        public_url=public_url,
    )
