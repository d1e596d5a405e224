"""The pipeline: a frame of addresses in, verdicts out, and what has to come back later.

`syntax -> lists -> domain facts -> mailbox facts -> judge`. A single address is a frame of one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from pipeline.dns.domains import DomainFacts
from pipeline.facts import Answer, CatchAllFact, DomainFact, DomainState, Known, MailboxFact, Mode
from pipeline.frames import Schema
from pipeline.judge import verdicts
from pipeline.judge.row import Policy
from pipeline.judge.verdicts import Findings
from pipeline.lists import Lists
from pipeline.probe.prober import Prober
from pipeline.probe.reach import Reach
from pipeline.probe.words import SURVEY, Probed, Target, Wait, WaitReason
from pipeline.providers import Providers
from pipeline.suggest import TYPO_TRAPS


@dataclass(frozen=True, slots=True)
class Request:
    """How to look at one frame.

    Attributes:
        mode: how far to look.
        evidence: write the evidence beside every verdict.
        max_age: seconds a mailbox verdict may be reused; 0 = always ask.
        probe_limit: with more mailboxes than this to ask for, none is asked: they are handed back with
            reason `survey`, so that the caller can group them by provider; 0 = ask all.
        delays: seconds to wait before the second, third … try at a server that said "later".
        dns_s: seconds without news from DNS after which the slow domains have to come back; None = wait.
        session_s: wall-clock seconds one SMTP session may take.
        budget_s: seconds after which no new session is opened.
        final: nobody will come back: judge what is known now.
        list_id: names the list the frame is of: a jump in refusals is a matter within one list.
        owner: who asks; answers about mailboxes are used again for the same owner only.
    """

    mode: Mode
    evidence: bool = False
    max_age: float = 0.0
    probe_limit: int = 0
    delays: tuple[float, ...] = ()
    dns_s: float | None = None
    session_s: float = 45.0
    budget_s: float = 20.0
    final: bool = True
    list_id: str = ""
    owner: str = ""


WAITING = Schema({"lane": "String", "reason": "String", "delay": "Float64"})
"""What a waiting address carries beside frames.WAITING: its throttle key, why it waits and how long."""

_DNS_AGAIN_SECONDS = 4.5


@dataclass(frozen=True, slots=True)
class Sifted:
    """What became of a frame: every address is in exactly one of the two.

    Attributes:
        finished: `n`, `rows`, the 13 fields, `evidence` and `provider` (frames.SEGMENT plus `rows`).
        waiting: frames.WAITING plus `lane`, `reason`, `delay`.
    """

    finished: pl.DataFrame
    waiting: pl.DataFrame


@dataclass(slots=True)
class _Later:
    """Who has to come back: address -> (lane, reason, delay in seconds)."""

    waits: dict[str, tuple[str, str, float]] = field(default_factory=dict)


class Sifter:
    """Everything the stages need, wired once per process.

    Args:
        lists: role, free, disposable and near-typo knowledge.
        providers: which providers' answers mean something.
        domains: DNS.
        prober: SMTP.
        reach: whether this machine can reach mail servers; where it cannot, deep answers say so at once.
        policy: what the operator decides.
    """

    def __init__(
        self,
        *,
        lists: Lists,
        providers: Providers,
        domains: DomainFacts,
        prober: Prober,
        reach: Reach,
        policy: Policy,
    ) -> None:
        self._lists = lists
        self._providers = providers
        self._domains = domains
        self._prober = prober
        self._reach = reach
        self._policy = policy

    async def sift(self, frame: pl.DataFrame, request: Request) -> Sifted:
        """Judge every address of the frame, or say what it waits for.

        Args:
            frame: frames.ADDRESSES, with or without the column `tries`.
            request: how far to look and how long.

        Returns:
            The verdicts and the addresses that have to come back; nothing is lost between them.
        """
        if "tries" not in frame.columns:
            frame = frame.with_columns(pl.lit(0, pl.UInt8).alias("tries"))
        frame = self._lists.describe(frame)
        facts: Mapping[str, DomainFact] = {}
        if request.mode is not Mode.FAST:
            facts = await self._domains.lookup(
                _distinct_domains(frame), patience_s=None if request.final else request.dns_s
            )
        frame = self._with_domains(frame, facts)
        probed, later = Probed({}, {}, {}), _Later()
        if request.mode is Mode.DEEP:
            probed, later = await self._ask(frame, facts, request)
        if request.mode is not Mode.FAST:
            later.waits.update(_slow_domains(frame))
        findings = Findings(request.mode, facts, probed.mailboxes, probed.catch_alls, self._policy)
        return _split(_with_mailboxes(frame, probed), later, findings, request)

    def give_up(self, frame: pl.DataFrame, mode: Mode) -> Sifted:
        """Judge the frame without asking anybody: DNS counts as unavailable, which is risky, not invalid."""
        frame = self._lists.describe(frame.with_columns(pl.lit(0, pl.UInt8).alias("tries")))
        unknown = {name: DomainFact(name, DomainState.UNAVAILABLE) for name in _distinct_domains(frame)}
        frame = _with_mailboxes(self._with_domains(frame, unknown), Probed({}, {}, {}))
        return _split(frame, _Later(), Findings(mode, unknown, {}, {}, self._policy), Request(mode))

    def _with_domains(self, frame: pl.DataFrame, facts: Mapping[str, DomainFact]) -> pl.DataFrame:
        """Add domain_state, lane and unverifiable; drop suggestions that would only annoy."""
        known = pl.DataFrame(
            {
                "domain": list(facts),
                "domain_state": [fact.state.value for fact in facts.values()],
                "lane": [fact.provider for fact in facts.values()],
            },
            schema={"domain": pl.String, "domain_state": pl.String, "lane": pl.String},
        )
        silent = [key for key in known["lane"].unique() if key and not self._providers.row(key).informative]
        joined = frame.join(known, on="domain", how="left", maintain_order="left").with_columns(
            pl.col("domain_state").fill_null(DomainState.NOT_ASKED.value),
            pl.col("lane").fill_null(""),
        )
        welcome = (pl.col("domain_state") != DomainState.ROUTED.value) | pl.col("domain").is_in(
            sorted(TYPO_TRAPS)
        )
        return joined.with_columns(
            pl.col("lane").is_in(silent).alias("unverifiable"),
            pl.when(welcome).then("suggested_domain").otherwise(pl.lit("")).alias("suggested_domain"),
        )

    async def _ask(
        self, frame: pl.DataFrame, facts: Mapping[str, DomainFact], request: Request
    ) -> tuple[Probed, _Later]:
        askable = frame.filter(
            (pl.col("domain_state") == DomainState.ROUTED.value)
            & ~pl.col("unverifiable")
            & ~pl.col("disposable")  # the verdict stands without bothering the server
        ).select("address", "local", "domain", "lane", "tries")
        if not askable.is_empty() and not await self._reach.is_open():
            fact = MailboxFact(answer=Answer.PROBE_UNAVAILABLE)
            return Probed(dict.fromkeys(askable["address"], fact), {}, {}), _Later()
        if 0 < request.probe_limit < len(askable):
            pairs = askable.select("address", "lane").iter_rows()
            return Probed({}, {}, {}), _Later({address: (lane, SURVEY, 0.0) for address, lane in pairs})
        targets = [
            Target(address, local, domain, facts[domain])
            for address, local, domain in askable.select("address", "local", "domain").iter_rows()
        ]
        probed = await self._prober.probe(
            targets,
            budget_s=request.budget_s,
            session_s=request.session_s,
            max_age=request.max_age,
            list_id=request.list_id,
            owner=request.owner,
        )
        return probed, _who_comes_back(askable, probed.waits, request)


def _slow_domains(frame: pl.DataFrame) -> dict[str, tuple[str, str, float]]:
    """Let the addresses whose domain has no answer yet come back; by then it is remembered."""
    unanswered = (pl.col("rule") == "") & (pl.col("domain_state") == DomainState.NOT_ASKED.value)
    wait = ("", WaitReason.SLOW.value, _DNS_AGAIN_SECONDS)
    return dict.fromkeys(frame.filter(unanswered)["address"], wait)


def _distinct_domains(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("rule") == "")["domain"].unique(maintain_order=True).to_list()


def _who_comes_back(askable: pl.DataFrame, waits: Mapping[str, Wait], request: Request) -> _Later:
    later = _Later()
    if waits and not request.final:
        for address, lane, tries in askable.select("address", "lane", "tries").iter_rows():
            wait = waits.get(address)
            delay = None if wait is None else delay_of(wait, tries, request.delays)
            if wait is not None and delay is not None:
                later.waits[address] = (lane, wait.reason.value, delay)
    return later


_SERVER_SAID_LATER = frozenset({WaitReason.GREYLISTED, WaitReason.DEFERRED, WaitReason.BLOCKED})


def delay_of(wait: Wait, tries: int, delays: Sequence[float]) -> float | None:
    """Return how many seconds an address waits before its next try; None when its tries are used up.

    Waiting for our own throttle is not a try; a server that said "later", or a provider that refuses us, gets
    as many as there are delays, and the delay it named counts when it is the longer one.
    """
    if wait.reason not in _SERVER_SAID_LATER:
        return wait.delay
    return max(wait.delay, delays[tries]) if tries < len(delays) else None


_NOT_ASKED = MailboxFact(answer=Answer.NOT_ASKED)


def _with_mailboxes(frame: pl.DataFrame, probed: Probed) -> pl.DataFrame:
    """Add answer, smtp_code, blanket and catch_all."""
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


def _split(frame: pl.DataFrame, later: _Later, findings: Findings, request: Request) -> Sifted:
    waits = pl.DataFrame(
        [(address, *wait) for address, wait in later.waits.items()],
        schema={"address": pl.String, **WAITING},
        orient="row",
    )
    waiting = frame.drop("lane").join(waits, on="address", how="inner", maintain_order="left")
    tried = pl.col("reason").is_in([reason.value for reason in _SERVER_SAID_LATER])
    waiting = waiting.with_columns((pl.col("tries") + tried.cast(pl.UInt8)).alias("tries"))
    done = frame.join(waits, on="address", how="anti") if later.waits else frame
    finished = verdicts.assemble(done, findings, evidence=request.evidence)
    columns = ["n", "rows", "address", "local", "domain", "rule", "tries", *WAITING]
    return Sifted(finished, waiting.select(columns))
