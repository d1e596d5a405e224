"""The pipeline: a frame of parsed addresses in, verdicts out, and what has to come back later.

`syntax -> lists -> domain facts -> mailbox facts -> judge`. A single address is a frame of one row.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import polars as pl

from mailsift.pipeline.facts import (
    TAKES_NO_MAIL,
    TRIAGE,
    Answer,
    CatchAllFact,
    DomainFact,
    DomainState,
    Known,
    MailboxFact,
    Mode,
    Wait,
    WaitReason,
)
from mailsift.pipeline.frames import BESIDE, PARSED, VERDICTS, WAITING, Schema
from mailsift.pipeline.judge_frame import Findings, judge_frame
from mailsift.pipeline.judge_one import FurtherFacts, judge_one
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.opt_outs import NOBODY, OptOuts
from mailsift.pipeline.outcomes.outcome import NO_OUTCOMES, OutcomeFacts
from mailsift.pipeline.probe.collector import NETWORK_SECONDS, ProberRule
from mailsift.pipeline.probe.prober import ProbeRequest, ProbeResult
from mailsift.pipeline.probe.queue import ProbeTarget
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.syntax.address import ParsedAddress
from mailsift.pipeline.throttle import AskedCounts, StopPolicy, ThrottleKey
from mailsift.pipeline.verdict import VerdictPolicy


@dataclass(frozen=True, slots=True)
class ValidationRequest(ProbeRequest):
    """How to look at one frame, and how to ask mail servers meanwhile.

    Attributes:
        mode: how far to look.
        evidence: write the evidence beside every verdict.
        probe_limit: with more mailboxes than this to ask for, none is asked: they are handed back with
            reason `survey` (triage), so that the caller can group them by provider; 0 = ask all.
        delays: seconds to wait before the second, third … try at a server that said "later".
        dns_s: seconds without news from DNS after which the slow domains have to come back; None = wait.
        final: nobody will come back: judge what is known now.
        outcomes: what the owner knows from messages of its own; nobody is asked about these addresses.
        domains_found: gets what DNS said as soon as that is known, for a caller who may not wait for the mail
            servers.
    """

    mode: Mode
    evidence: bool = False
    probe_limit: int = 0
    delays: tuple[float, ...] = ()
    dns_s: float | None = None
    final: bool = True
    outcomes: OutcomeFacts = NO_OUTCOMES
    domains_found: dict[str, DomainFact] = field(default_factory=dict, compare=False)

    def is_last_try(self, tries: int) -> bool:
        """Tell whether nobody comes back for an address that a server has put off so many times."""
        return self.final or tries >= len(self.delays)


_WAIT_COLUMNS = Schema({"throttle_key": "String", "reason": "String", "delay": "Float64"})
"""What a waiting address carries beside frames.WAITING: its throttle key, why it waits and how long."""

_DEFERRED: Final = WAITING | _WAIT_COLUMNS
_FINISHED: Final = Schema({"n": "UInt32", "rows": "UInt32"}) | VERDICTS | BESIDE
"""What ValidationResult holds of each."""
_UNASKED_DOMAIN: Final = DomainFact("", DomainState.NOT_ASKED)
_FEW: Final = 50
"""Addresses that are judged one by one sooner than at once: three in 0.4 ms and not in 4.7."""

_DNS_RETRY_SECONDS = {WaitReason.SLOW: 4.5, WaitReason.RESOLVER: 15.0, WaitReason.DEFERRED: 6.0}
"""From its answer. A failure is forgotten before the deferred come back (pipeline.dns.domains.DnsConfig)."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What became of a frame: every address is in exactly one of the two.

    Attributes:
        finished: `n`, `rows`, the 13 fields, `evidence`, `provider`, `unwanted`: frames.SEGMENT and `rows`.
        waiting: frames.WAITING plus `throttle_key`, `reason`, `delay`.
        probes: mailboxes about which a mail server was asked now and answered.
        rests: seconds until asking a provider from a source makes sense again, by throttle key and identity.
        asked: what was heard now about real recipients, by provider and identity.
    """

    finished: pl.DataFrame
    waiting: pl.DataFrame
    probes: int = 0
    rests: Mapping[tuple[str, str], float] = field(default_factory=dict)
    asked: Mapping[ThrottleKey, AskedCounts] = field(default_factory=dict)


_AHEAD_PATIENCE_S: Final = 0.1
_RESERVE: Final = 0.25  # seconds kept of a deadline, to judge what was found
_Deferred = dict[str, tuple[str, str, float]]
"""Who has to come back: address -> _WAIT_COLUMNS."""


class DomainWitness(Protocol):
    """Who says what DNS knows (mailsift.pipeline.dns.domains.DomainFacts)."""

    @property
    def has_trusted_resolver(self) -> bool:
        """Whether it can be believed now."""
        ...

    async def lookup(
        self, domains: Sequence[str], *, patience_s: float | None, final: bool
    ) -> Mapping[str, DomainFact]:
        """Return facts by domain."""
        ...


class MailboxWitness(Protocol):
    """Who says what mail servers know (mailsift.pipeline.probe.prober.Prober)."""

    async def probe(
        self,
        targets: Sequence[ProbeTarget],
        request: ProbeRequest,
        *,
        recheck_port25: Callable[[], Awaitable[object]] | None = None,
    ) -> ProbeResult:
        """Return facts about mailboxes."""
        ...


class NetworkWitness(Protocol):
    """Who says whether mail servers can be reached (mailsift.pipeline.probe.port25.Port25Status)."""

    @property
    def has_been_open(self) -> bool:
        """Whether they ever could."""
        ...

    async def is_open(self) -> bool:
        """Tell whether they can, as far as is known."""
        ...

    async def is_still_open(self, *, decides: bool = False) -> bool:
        """Look again, whatever was found before where a verdict depends on it."""
        ...


@dataclass(kw_only=True, eq=False)
class Validator:
    """Everything the stages need, wired once per process.

    Attributes:
        lists: role, free, disposable and near-typo knowledge.
        providers: which providers' answers mean something.
        port25: whether this machine can reach mail servers; where it cannot, deep answers say so at once.
        monotonic: seconds.
    """

    lists: Lists
    providers: Providers
    domains: DomainWitness
    prober: MailboxWitness
    port25: NetworkWitness
    policy: VerdictPolicy
    opt_outs: OptOuts = NOBODY
    monotonic: Callable[[], float] = time.monotonic

    async def validate(self, frame: pl.DataFrame, request: ValidationRequest) -> ValidationResult:
        """Judge every address of the frame, or say what it waits for.

        Args:
            frame: frames.ADDRESSES (the syntax has been parsed), with or without what frames.WAITING adds.
            request: how far to look and how long.

        Returns:
            The verdicts and the addresses that have to come back; nothing is lost between them.
        """
        domains = await self._domain_facts(frame, request)
        answered_at = self.monotonic()
        request.domains_found.update(domains)
        if frame.height <= _FEW and (judged := self._judge_few(frame, domains, request)) is not None:
            return judged
        frame = self._described(frame, domains, request.outcomes.unwanted)
        probed, deferred = await self._mailbox_facts(frame, domains, request)
        probed = replace(
            probed, mailboxes={**probed.mailboxes, **_outcome_facts(frame, request.outcomes.sent)}
        )
        frame = _with_mailboxes(frame, probed, request.outcomes.sent)
        findings = Findings(request.mode, domains, probed.mailboxes, probed.catch_alls, self.policy)
        is_trusted = request.mode is Mode.FAST or self.domains.has_trusted_resolver
        reason = WaitReason.SLOW if is_trusted else WaitReason.RESOLVER
        since_s = self.monotonic() - answered_at
        waits = deferred | _slow_domains(frame, request.mode, reason, since_s)
        waits |= _silent_domains(frame, request, since_s)
        result = _judge(frame, waits, findings, request, probed)
        asked = (fact for fact in probed.mailboxes.values() if fact.smtp_code and not fact.cached)
        return replace(result, probes=sum(1 for _ in asked))

    def _judge_few(
        self, frame: pl.DataFrame, facts: Mapping[str, DomainFact], request: ValidationRequest
    ) -> ValidationResult | None:
        """Do the rest of `validate` for a few addresses by lists and DNS, one by one, without frames.

        None where that takes more: a mail server, an outcome or DNS has to be heard, or evidence is wanted.
        """
        addresses = [
            (n, rows, one, facts.get(one.domain, _UNASKED_DOMAIN))
            for n, rows, *parsed in frame.select("n", "rows", *PARSED).iter_rows()
            for one in (ParsedAddress(*parsed),)
        ]
        is_answered = all(
            one.rule or fact.state is not DomainState.NOT_ASKED for _, _, one, fact in addresses
        )
        if request.mode is not Mode.MEDIUM or request.evidence or request.outcomes.sent or not is_answered:
            return None
        routed = {name for name, fact in facts.items() if fact.state is DomainState.ROUTED}
        finished = []
        for n, rows, one, fact in addresses:
            known = self.lists.describe_one(one, routed)
            if not known.domain.suggested_domain:
                suggested = self._suggestion_where_denied(one.domain, fact)
                known = known._replace(domain=known.domain._replace(suggested_domain=suggested))
            unwanted = request.outcomes.unwanted.get(one.address, "")
            verdict = judge_one(one, known, self.policy, FurtherFacts(Mode.MEDIUM, fact.state, unwanted))
            finished.append((n, rows, *verdict.values(), "", fact.provider, unwanted))
        return ValidationResult(
            pl.DataFrame(finished, schema=dict(_FINISHED), orient="row"), pl.DataFrame(schema=dict(_DEFERRED))
        )

    async def validate_until(
        self, frame: pl.DataFrame, request: ValidationRequest, ends_at: float
    ) -> ValidationResult:
        """Do what `validate` does by a time of the event loop (infinity: no end); judge what is known then.

        No session takes longer than there is, nor than the request says.
        """
        now = asyncio.get_running_loop().time()
        seconds = max(ends_at - now - _RESERVE, (ends_at - now) / 2)
        session_s = min(seconds, request.session_s)
        request = replace(request, session_s=session_s, budget_s=seconds, ends_at=now + seconds)
        try:
            async with asyncio.timeout_at(ends_at if ends_at < math.inf else None):
                return await self.validate(frame, request)
        except TimeoutError:
            return self.give_up(frame, request.mode, request.domains_found, request.outcomes)

    async def look_ahead(self, domains: Sequence[str]) -> None:
        """Look up domains whose addresses come later; what DNS is slow about goes on without this call."""
        await self.domains.lookup(domains, patience_s=_AHEAD_PATIENCE_S, final=False)

    def give_up(
        self,
        frame: pl.DataFrame,
        mode: Mode,
        domains_found: Mapping[str, DomainFact] | None = None,
        outcomes: OutcomeFacts = NO_OUTCOMES,
    ) -> ValidationResult:
        """Judge the frame by what is known, without asking anybody.

        `domains_found` is what DNS has said in the time there was; None: the work broke every time.
        """
        facts, mailboxes = dict[str, DomainFact](), dict[str, MailboxFact]()
        if domains_found is None:
            mailboxes = dict.fromkeys(frame["address"], MailboxFact(answer=Answer.GIVEN_UP))
        else:
            unknown = {name: DomainFact(name, DomainState.UNAVAILABLE) for name in _distinct_domains(frame)}
            facts = {**unknown, **domains_found}
        probed = ProbeResult({**mailboxes, **_outcome_facts(frame, outcomes.sent)})
        frame = _with_mailboxes(self._described(frame, facts, outcomes.unwanted), probed, outcomes.sent)
        findings = Findings(mode, facts, probed.mailboxes, {}, self.policy)
        return _judge(frame, {}, findings, ValidationRequest(mode), ProbeResult())

    async def _domain_facts(
        self, frame: pl.DataFrame, request: ValidationRequest
    ) -> Mapping[str, DomainFact]:
        if request.mode is Mode.FAST:
            return {}
        patience_s = None if request.final else request.dns_s
        return await self.domains.lookup(_distinct_domains(frame), patience_s=patience_s, final=request.final)

    def _described(
        self, frame: pl.DataFrame, facts: Mapping[str, DomainFact], unwanted: Mapping[str, str]
    ) -> pl.DataFrame:
        """Add what the lists, the account and DNS know of each address."""
        routed = {name for name, fact in facts.items() if fact.state is DomainState.ROUTED}
        listed = self.lists.describe(_with_history(frame), routed=routed)
        return self._with_domains(_with_unwanted(listed, unwanted), facts)

    def _with_domains(self, frame: pl.DataFrame, facts: Mapping[str, DomainFact]) -> pl.DataFrame:
        """Add domain_state, throttle_key, unverifiable and edge, and what was meant where DNS denies it."""
        by_domain = pl.DataFrame(
            {
                "domain": list(facts),
                "domain_state": [fact.state.value for fact in facts.values()],
                "throttle_key": [fact.provider for fact in facts.values()],
                "denied_suggestion": [
                    self._suggestion_where_denied(name, fact) for name, fact in facts.items()
                ],
            },
            schema=dict.fromkeys(("domain", "domain_state", "throttle_key", "denied_suggestion"), pl.String),
        )
        rows = [self.providers.row(key) for key in by_domain["throttle_key"].unique() if key]
        uninformative = [row.key for row in rows if not row.informative]
        edges = [row.key for row in rows if row.edge]
        joined = frame.join(by_domain, on="domain", how="left", maintain_order="left").with_columns(
            pl.col("domain_state").fill_null(DomainState.NOT_ASKED.value),
            pl.col("throttle_key").fill_null(""),
        )
        return joined.with_columns(
            pl.col("throttle_key").is_in(uninformative).alias("unverifiable"),
            pl.col("throttle_key").is_in(edges).alias("edge"),
            pl.when(pl.col("suggested_domain") == "")
            .then(pl.col("denied_suggestion").fill_null(""))
            .otherwise("suggested_domain")
            .alias("suggested_domain"),
        ).drop("denied_suggestion")

    def _suggestion_where_denied(self, domain: str, fact: DomainFact) -> str:
        """Return the domain that was meant by one that DNS denies, where a guess can annoy nobody."""
        denied = fact.state in TAKES_NO_MAIL
        return self.lists.suggested(domain, takes_no_mail=True) if denied else ""

    async def _mailbox_facts(
        self, frame: pl.DataFrame, domains: Mapping[str, DomainFact], request: ValidationRequest
    ) -> tuple[ProbeResult, _Deferred]:
        if request.mode is not Mode.DEEP:
            return ProbeResult(), {}
        known = [*request.outcomes.sent, *request.outcomes.unwanted]
        askable = _askable(frame).filter(~pl.col("address").is_in(known))
        unasked = self._unasked(askable, request)
        if unasked:
            askable = askable.filter(~pl.col("address").is_in(list(unasked)))
        probed, waits = await self._probe(askable, domains, request)
        return replace(probed, mailboxes={**probed.mailboxes, **unasked}), waits

    def _unasked(self, askable: pl.DataFrame, request: ValidationRequest) -> dict[str, MailboxFact]:
        """Return what those get who are not asked for: their domain opted out, or the list stopped there."""
        found = {}
        never = request.stop.rule.policy is StopPolicy.NOT_ASKED
        stopped = request.stop.providers() if never else frozenset()
        for address, domain, key in askable.select("address", "domain", "throttle_key").iter_rows():
            if self.opt_outs.covers(domain):
                found[address] = MailboxFact(answer=Answer.OPTED_OUT)
            elif key in stopped:
                found[address] = MailboxFact(answer=Answer.TOO_MANY_MISSING)
        return found

    async def _probe(
        self, askable: pl.DataFrame, domains: Mapping[str, DomainFact], request: ValidationRequest
    ) -> tuple[ProbeResult, _Deferred]:
        """Ask the mail servers, unless port 25 is closed or there are too many to ask in one sitting."""
        if not askable.is_empty() and not await self.port25.is_open():
            if self.port25.has_been_open and not request.final:
                wait = Wait(WaitReason.OUR_NETWORK, NETWORK_SECONDS)
                return ProbeResult(), _deferred(askable, dict.fromkeys(askable["address"], wait), request)
            fact = MailboxFact(answer=Answer.PROBE_UNAVAILABLE)
            return ProbeResult(dict.fromkeys(askable["address"], fact)), {}
        if 0 < request.probe_limit < len(askable):
            pairs = askable.select("address", "throttle_key").iter_rows()
            return ProbeResult(), {address: (key, TRIAGE, 0.0) for address, key in pairs}
        probed = await self.prober.probe(
            [
                ProbeTarget(address, domains[domain], request.is_last_try(tries), known_by)
                for address, domain, tries, known_by in askable.select(
                    "address", "domain", "tries", "known_by"
                ).iter_rows()
            ],
            request,
            recheck_port25=self.port25.is_still_open,
        )
        waits = {} if request.final else await self._waits_after_silence(askable, probed) | probed.waits
        return probed, _deferred(askable, waits, request)

    async def _waits_after_silence(self, askable: pl.DataFrame, probed: ProbeResult) -> dict[str, Wait]:
        """Return what those wait for to whom nobody answered: for our network, or for a second try."""
        if any(wait.reason is WaitReason.OUR_NETWORK for wait in probed.waits.values()):
            await self.port25.is_still_open()  # somebody answers in the name of others: alarm, ask nobody
        silent = {address: fact for address, fact in probed.mailboxes.items() if _is_silence(fact)}
        if not silent:
            return {}
        first_try = set(askable.filter(pl.col("tries") == 0)["address"])
        is_open = await self.port25.is_still_open(decides=not first_try.issuperset(silent))
        if not is_open and self.port25.has_been_open:
            return dict.fromkeys(silent, Wait(WaitReason.OUR_NETWORK, NETWORK_SECONDS))
        return {address: Wait(WaitReason.DEFERRED, 0.0) for address in silent if address in first_try}


def _with_history(frame: pl.DataFrame) -> pl.DataFrame:
    """Add what addresses have that come back."""
    missing = {"tries": pl.lit(0, pl.UInt8), "known_by": pl.lit("", pl.String)}
    return frame.with_columns(
        value.alias(name) for name, value in missing.items() if name not in frame.columns
    )


def _with_unwanted(frame: pl.DataFrame, unwanted: Mapping[str, str]) -> pl.DataFrame:
    reason = pl.col("address").replace_strict(unwanted, default="", return_dtype=pl.String)
    return frame.with_columns((reason if unwanted else pl.lit("")).alias("unwanted"))


def _distinct_domains(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("rule") == "")["domain"].unique(maintain_order=True).to_list()


def _askable(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the addresses whose mail server has something to say that is not decided yet."""
    return frame.filter(
        (pl.col("domain_state") == DomainState.ROUTED.value)
        & ~pl.col("unverifiable")
        & ~pl.col("disposable")  # the verdict stands without bothering the server
    ).select("address", "domain", "throttle_key", "tries", "known_by")


def _slow_domains(frame: pl.DataFrame, mode: Mode, reason: WaitReason, since_s: float) -> _Deferred:
    """Let the addresses whose domain has no answer yet come back; by then it is remembered."""
    if mode is Mode.FAST:
        return {}
    unanswered = (pl.col("rule") == "") & (pl.col("domain_state") == DomainState.NOT_ASKED.value)
    wait = ("", reason.value, _dns_retry_s(reason, since_s))
    return dict.fromkeys(frame.filter(unanswered)["address"], wait)


def _silent_domains(frame: pl.DataFrame, request: ValidationRequest, since_s: float) -> _Deferred:
    """Let the addresses come back once whose domain DNS failed for, as those whose mail server is silent."""
    if request.mode is not Mode.DEEP or request.is_last_try(0):
        return {}
    first_try = (pl.col("domain_state") == DomainState.UNAVAILABLE.value) & (pl.col("tries") == 0)
    wait = ("", WaitReason.DEFERRED.value, _dns_retry_s(WaitReason.DEFERRED, since_s))
    return dict.fromkeys(frame.filter(first_try)["address"], wait)


def _dns_retry_s(reason: WaitReason, since_s: float) -> float:
    """Return the seconds until DNS is asked again, of which mail servers have taken some already."""
    return max(0.0, _DNS_RETRY_SECONDS[reason] - since_s)


def _deferred(askable: pl.DataFrame, waits: Mapping[str, Wait], request: ValidationRequest) -> _Deferred:
    """Return who has to come back; nobody when nobody comes back or the tries are used up."""
    deferred: _Deferred = {}
    if waits and not request.final:
        for address, key, tries in askable.select("address", "throttle_key", "tries").iter_rows():
            wait = waits.get(address)
            delay = None if wait is None else delay_of(wait, tries, request.delays)
            if wait is not None and delay is not None:
                deferred[address] = (key, wait.reason.value, delay)
    return deferred


COUNT_AS_TRY = frozenset({WaitReason.GREYLISTED, WaitReason.DEFERRED, WaitReason.BLOCKED})


def _is_silence(fact: MailboxFact) -> bool:
    """Tell whether no server could be connected to, which may be for want of a network of our own."""
    return fact.answer is Answer.UNREACHABLE and fact.rule == ProberRule.UNREACHED


def delay_of(wait: Wait, tries: int, delays: Sequence[float]) -> float | None:
    """Return how many seconds an address waits before its next try; None when its tries are used up.

    Waiting for our own throttle is not a try; a server that said "later", or a provider that refuses us, gets
    as many as there are delays, and the delay it named counts when it is the longer one.
    """
    if wait.reason not in COUNT_AS_TRY:
        return wait.delay
    return max(wait.delay, delays[tries]) if tries < len(delays) else None


_NOT_ASKED = MailboxFact(answer=Answer.NOT_ASKED)


def _outcome_facts(frame: pl.DataFrame, sent: Mapping[str, MailboxFact]) -> dict[str, MailboxFact]:
    """Return what was shown about the addresses of this frame."""
    return {address: sent[address] for address in frame["address"] if address in sent} if sent else {}


def _with_mailboxes(
    frame: pl.DataFrame, probed: ProbeResult, sent: Mapping[str, MailboxFact]
) -> pl.DataFrame:
    """Add answer, smtp_code, blanket, catch_all and sent."""
    frame = frame.with_columns(pl.col("address").is_in(list(sent)).alias("sent"))
    if not probed.mailboxes and not probed.catch_alls:
        return frame.with_columns(
            pl.lit(_NOT_ASKED.answer.value).alias("answer"),
            pl.lit(_NOT_ASKED.smtp_code, pl.UInt16).alias("smtp_code"),
            pl.lit(_NOT_ASKED.blanket).alias("blanket"),
            pl.lit(Known.UNKNOWN.value).alias("catch_all"),
        )
    mailboxes = [probed.mailboxes.get(address, _NOT_ASKED) for address in frame["address"]]
    return frame.with_columns(
        pl.Series("answer", [fact.answer.value for fact in mailboxes], pl.String),
        pl.Series("smtp_code", [fact.smtp_code for fact in mailboxes], pl.UInt16),
        pl.Series("blanket", [fact.blanket for fact in mailboxes], pl.Boolean),
        _catch_alls(frame["domain"], probed.catch_alls),
    )


def _catch_alls(domains: pl.Series, known: Mapping[str, CatchAllFact]) -> pl.Series:
    values = {domain: fact.catch_all.value for domain, fact in known.items()}
    return domains.replace_strict(values, default=Known.UNKNOWN.value, return_dtype=pl.String).alias(
        "catch_all"
    )


def _judge(
    frame: pl.DataFrame,
    deferred: _Deferred,
    findings: Findings,
    request: ValidationRequest,
    probed: ProbeResult,
) -> ValidationResult:
    """Judge whoever need not come back."""
    waits = pl.DataFrame(
        [(address, *wait) for address, wait in deferred.items()],
        schema={"address": pl.String, **_WAIT_COLUMNS},
        orient="row",
    )
    waiting = frame.drop("throttle_key").join(waits, on="address", how="inner", maintain_order="left")
    counts_as_try = pl.col("reason").is_in([reason.value for reason in COUNT_AS_TRY])
    waiting = waiting.with_columns(
        (pl.col("tries") + counts_as_try.cast(pl.UInt8)).alias("tries"),
        pl.when(pl.col("reason") == WaitReason.GREYLISTED.value)
        .then(pl.col("address").replace_strict(probed.asked_from, default="", return_dtype=pl.String))
        .otherwise("known_by")
        .alias("known_by"),
    )
    ready = frame.join(waits, on="address", how="anti") if deferred else frame
    finished = judge_frame(ready, findings, evidence=request.evidence)
    columns = ["n", "rows", "address", "local", "domain", "rule", "tries", "known_by", *_WAIT_COLUMNS]
    return ValidationResult(finished, waiting.select(columns), rests=probed.rests, asked=probed.asked)
