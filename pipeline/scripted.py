"""Test mode: witnesses that say what a domain's name tells them to, so that nobody is asked.

The pipeline is the usual one, and so are the verdicts; only what DNS and the mail servers say is made up. A
domain below `example.com` (RFC 2606) names the outcome: `jane@mailbox-not-found.example.com`. Mail to every
other domain is delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mailsift.pipeline.facts import Answer, CatchAllFact, DomainFact, DomainState, Known, MailboxFact, MxHost
from mailsift.pipeline.probe.prober import ProbeResult
from mailsift.pipeline.probe.queue import ProbeTarget
from mailsift.pipeline.verdict import Result

DOMAIN: Final = "example.com"
DISPOSABLE: Final = f"disposable.{DOMAIN}"

_STATES: Final[Mapping[str, DomainState]] = {
    "domain-not-found": DomainState.NOT_FOUND,
    "no-mail-server": DomainState.NO_MAIL_SERVER,
    "null-mx": DomainState.NULL_MX,
    "unroutable": DomainState.UNROUTABLE,
    "dns-unavailable": DomainState.UNAVAILABLE,
}
_ANSWERS: Final[Mapping[str, tuple[Answer, int]]] = {
    "mailbox-not-found": (Answer.NOT_FOUND, 550),
    "mailbox-disabled": (Answer.DISABLED, 550),
    "mailbox-full": (Answer.FULL, 452),
    "catch-all": (Answer.ACCEPTED, 250),
    "unverifiable": (Answer.UNCLEAR, 550),
    "deferred": (Answer.GREYLISTED, 451),
    "probe-blocked": (Answer.REFUSED_US, 554),
    "unreachable": (Answer.UNREACHABLE, 0),
    "probe-unavailable": (Answer.PROBE_UNAVAILABLE, 0),
    "not-asked": (Answer.NOT_ASKED, 0),
}
ADDRESSES: Final[Mapping[Result, str]] = {
    **{Result(label.replace("-", "_")): f"jane@{label}.{DOMAIN}" for label in (*_STATES, *_ANSWERS)},
    Result.DELIVERABLE: f"jane@{DOMAIN}",
    Result.DISPOSABLE: f"jane@{DISPOSABLE}",
    Result.SYNTAX_ERROR: f"jane@@{DOMAIN}",
    Result.PASSED: f"jane@passed.{DOMAIN}",
    Result.UNKNOWN_SUFFIX: "jane@example.unknown-suffix",
}
"""An address of each result; `passed` and `unknown_suffix` are not of mode deep."""


class ScriptedDomains:
    """Knows by a domain's name what DNS would say (mailsift.pipeline.validator.DomainWitness)."""

    has_trusted_resolver = True

    async def lookup(
        self, domains: Iterable[str], *, patience_s: float | None = None, final: bool = True
    ) -> Mapping[str, DomainFact]:
        """Return a fact for every domain, at once."""
        del patience_s, final
        return {domain: _domain_fact(domain) for domain in domains}


class ScriptedServers:
    """Knows by a domain's name what its server would say (mailsift.pipeline.validator.MailboxWitness)."""

    async def probe(self, targets: Sequence[ProbeTarget], *_: object, **_how: object) -> ProbeResult:
        """Return a fact for every mailbox, at once; nothing waits."""
        return ProbeResult(
            mailboxes={target.address: _mailbox_fact(target.domain) for target in targets},
            catch_alls={target.domain: _catch_all_fact(target.domain) for target in targets},
        )


class OpenPort:
    """Port 25 as if it were open (mailsift.pipeline.validator.NetworkWitness)."""

    has_been_open = True

    async def is_open(self) -> bool:
        """Say yes."""
        return True

    async def is_still_open(self, *, decides: bool = False) -> bool:  # noqa: ARG002 - it always is
        """Say yes."""
        return True


def _label(domain: str) -> str:
    """Return the label that names an outcome, "" for a domain without one."""
    return domain.removesuffix(f".{DOMAIN}").rpartition(".")[2] if domain.endswith(f".{DOMAIN}") else ""


def _domain_fact(domain: str) -> DomainFact:
    state = _STATES.get(_label(domain), DomainState.ROUTED)
    if state is not DomainState.ROUTED:
        return DomainFact(domain, state, detail="test mode")
    hosts = (MxHost(f"mx.{domain}", 10, ("192.0.2.25",)),)  # for documentation (RFC 5737): nobody dials it
    return DomainFact(domain, state, hosts=hosts, provider=f"mx.{DOMAIN}", detail="test mode")


def _mailbox_fact(domain: str) -> MailboxFact:
    answer, code = _ANSWERS.get(_label(domain), (Answer.ACCEPTED, 250))
    return MailboxFact(answer, code, text="test mode", stage="rcpt", rule="test_mode", host=f"mx.{domain}")


def _catch_all_fact(domain: str) -> CatchAllFact:
    everybody = _label(domain) == "catch-all"
    return CatchAllFact(domain, Known.YES if everybody else Known.NO, 250 if everybody else 550)
