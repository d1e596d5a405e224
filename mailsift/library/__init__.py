"""`import mailsift` in a program of one's own: the service's validator, without the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from mailsift.pipeline.verdict import Result, Status, Verdict


def writable(text: str) -> str:
    """Return the text, "" for one that no file can hold: it has halves of characters in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return ""
    return text


@dataclass(frozen=True, slots=True)
class CheckResult(Verdict):
    """The 13 fields of a verdict, and the address it is about.

    Attributes:
        address: canonical (trimmed, lower case, its domain in ASCII); a text that is none, trimmed.
    """

    address: str

    @classmethod
    def of(cls, address: str, fields: Mapping[str, Any]) -> Self:
        """Make one of the fields by name."""
        result, status = Result(fields["result"]), Status(fields["status"])
        return cls(**{**fields, "result": result, "status": status, "address": address})

    def as_dict(self) -> dict[str, Any]:
        """Return the address and the 13 fields, in the contract's order, as plain types."""
        fields = asdict(self)
        return {
            "address": fields.pop("address"),
            **fields,
            "result": str(self.result),
            "status": str(self.status),
        }
