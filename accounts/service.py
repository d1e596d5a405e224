"""The people of an installation: what the pages and `mailsift users` ask about them."""

from __future__ import annotations

from dataclasses import dataclass

from mailsift.accounts.links import Links
from mailsift.accounts.people import Members
from mailsift.accounts.sessions import Sessions
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
