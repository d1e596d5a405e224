"""What a verdict is called behind each door: one table, which can be read both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from mailsift.accounts.doors import Door
from mailsift.jobs.columns import JUDGED_ADDRESS, VERDICT_PREFIX
from mailsift.pipeline.syntax.address import canonical_of, parse_cell
from mailsift.pipeline.verdict import Result

Code = tuple[str, ...]
"""The words of a vendor for one outcome: its status, and what it says beside it."""


@dataclass(frozen=True, slots=True)
class CodeTable:
    """A vendor's words for our results."""

    usual: Mapping[Result, Code]  # for every one
    role: Mapping[Result, Code]  # for those that are called something else at an address of a role

    def of(self, verdict: Mapping[str, Any]) -> Code:
        """Return what a verdict, with at least `result` and `is_role_based`, is called."""
        return self.named(Result(verdict["result"]), role=verdict["is_role_based"])

    def named(self, result: Result, *, role: bool) -> Code:
        """Return what a result is called."""
        return self.role.get(result, self.usual[result]) if role else self.usual[result]

    @property
    def codes(self) -> frozenset[Code]:
        """All words of this door."""
        return frozenset((*self.usual.values(), *self.role.values()))

    def column(self, place: int) -> pl.Expr:
        """Return one of the words for every row of a file of results."""
        result = pl.col(f"{VERDICT_PREFIX}result").cast(pl.String)
        usual = {one.value: code[place] for one, code in self.usual.items()}
        role = usual | {one.value: code[place] for one, code in self.role.items()}
        return (
            pl.when(pl.col(f"{VERDICT_PREFIX}is_role_based"))
            .then(result.replace_strict(role, return_dtype=pl.String))
            .otherwise(result.replace_strict(usual, return_dtype=pl.String))
        )


# What the results are called, with a slash between a status and what is said beside it.
_USUAL: Final = """
#                  Emailable, Kickbox            NeverBounce  Reacher  ZeroBounce
deliverable        deliverable/accepted_email    valid        safe     valid/
passed             unknown/no_connect            unknown      unknown  unknown/
catch_all          risky/low_deliverability      catchall     risky    catch-all/
unverifiable       unknown/unavailable_smtp      unknown      unknown  unknown/antispam_system
deferred           unknown/unavailable_smtp      unknown      unknown  unknown/greylisted
not_asked          unknown/timeout               unknown      unknown  unknown/timeout_exceeded
probe_blocked      unknown/unavailable_smtp      unknown      unknown  unknown/antispam_system
unreachable        unknown/no_connect            unknown      unknown  unknown/mail_server_did_not_respond
dns_unavailable    unknown/unexpected_error      unknown      unknown  unknown/exception_occurred
probe_unavailable  unknown/no_connect            unknown      unknown  unknown/failed_smtp_connection
mailbox_full       risky/low_deliverability      unknown      risky    unknown/mailbox_quota_exceeded
unknown_suffix     unknown/no_connect            unknown      unknown  unknown/
disposable         risky/low_quality             disposable   risky    do_not_mail/disposable
mailbox_disabled   undeliverable/rejected_email  invalid      invalid  invalid/mailbox_not_found
mailbox_not_found  undeliverable/rejected_email  invalid      invalid  invalid/mailbox_not_found
no_mail_server     undeliverable/invalid_domain  invalid      invalid  invalid/no_dns_entries
null_mx            undeliverable/invalid_domain  invalid      invalid  invalid/does_not_accept_mail
unroutable         undeliverable/invalid_domain  invalid      invalid  invalid/unroutable_ip_address
domain_not_found   undeliverable/invalid_domain  invalid      invalid  invalid/no_dns_entries
syntax_error       undeliverable/invalid_email   invalid      invalid  invalid/failed_syntax_check
"""
_AT_ROLE_ADDRESSES: Final = """
deliverable        risky/low_quality             valid        risky    do_not_mail/role_based
catch_all          risky/low_deliverability      catchall     risky    do_not_mail/role_based_catch_all
"""
_COLUMNS: Final = {
    Door.EMAILABLE: 0,
    Door.KICKBOX: 0,
    Door.NEVERBOUNCE: 1,
    Door.REACHER: 2,
    Door.ZEROBOUNCE: 3,
}


def code_table(door: Door) -> CodeTable:
    """Return the words of one vendor."""
    return CodeTable(_read_column(_USUAL, _COLUMNS[door]), _read_column(_AT_ROLE_ADDRESSES, _COLUMNS[door]))


def _read_column(table: str, place: int) -> dict[Result, Code]:
    rows = (line.split() for line in table.splitlines() if line and not line.startswith("#"))
    return {Result(result): tuple(codes[place].split("/")) for result, *codes in rows}


def split_address(text: str) -> tuple[str, str]:
    """Return the local part and the domain that are judged, as in files of results.

    Of a text that is no address, what stands before and behind the last at sign, "" where there is none.
    """
    parsed = parse_cell(text)
    if not parsed.rule:
        return parsed.local, parsed.domain
    user, _, domain = text.rpartition("@")
    return (user, domain) if "@" in text else (text, "")


def normal_form(text: str) -> str:
    """Return the address that is judged; of a text that is none, itself in lower case."""
    return canonical_of(text) or text.lower()


@dataclass(frozen=True, slots=True)
class AddressParts:
    """The parts of every row's judged address, cut where `split_address` cuts: a quoted part may hold an @.

    Of a row without an address all are null; `tag` is what stands behind the first plus sign.
    """

    user: pl.Expr
    tag: pl.Expr
    host: pl.Expr


def address_parts() -> AddressParts:
    """Return the parts of the judged addresses of a file of results."""
    address = pl.col(JUDGED_ADDRESS)
    user = address.str.extract(r"(?s)^(.*)@")
    return AddressParts(user, user.str.extract(r"(?s)\+(.*)$"), address.str.extract(r"(?s)@([^@]*)$"))
