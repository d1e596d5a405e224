"""Where uploaded lists lie that were not started yet: the file where its job will look, and a marker."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from storage.blobs import JobBlobs

ALL = "drafts"
"""Every marker lies below it."""


@dataclass(frozen=True, slots=True)
class DraftBlobs:
    """The keys of one list; `draft` becomes the id of its job."""

    account: UUID
    draft: UUID

    @property
    def marker(self) -> str:
        """Says whose list it is and since when; gone once the job exists."""
        return f"{of_account(self.account)}/{self.draft}.json"

    @property
    def source(self) -> str:
        """The customer's file as it came."""
        return JobBlobs(self.draft).source

    @property
    def look(self) -> str:
        """What a first look has found in it (jobs.drafts.Look)."""
        return f"{JobBlobs(self.draft).prefix}/look.json"


def of_account(account: UUID) -> str:
    """Return what all markers of an account lie below."""
    return f"{ALL}/{account}"


def read_marker(key: str) -> DraftBlobs:
    """Return the draft a marker belongs to."""
    account, draft = key.removeprefix(f"{ALL}/").removesuffix(".json").split("/")
    return DraftBlobs(UUID(account), UUID(draft))
