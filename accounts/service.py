"""The people of an installation: what the pages and `mailsift users` ask about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailsift.accounts.links import Links
from mailsift.accounts.people import Members
from mailsift.accounts.sessions import Sessions
from mailsift.storage.redis.rate_limit import RateLimit

if TYPE_CHECKING:
    from mailsift.accounts.sso import SingleSignOn


@dataclass(frozen=True, slots=True)
class People:
    """Everything about people.

    Attributes:
        sessions: signing in and out, passwords.
        links: one-time links, invitations among them, are made and used.
        members: roles, retention, the audit log.
        limit: counts what must not be asked too often.
        sso: signs people in by a provider, where one is configured.
        sso_name: what the provider is called on the button.
        public_url: how browsers reach the pages, without a slash at its end; "" = as the browser says.
    """

    sessions: Sessions
    links: Links
    members: Members
    limit: RateLimit
    public_url: str
    sso: SingleSignOn | None
    sso_name: str
