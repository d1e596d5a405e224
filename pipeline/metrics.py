"""What the pipeline counts: how mail servers answer, and what the throttle allows."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any, Final, TypeVar

from prometheus_client import Counter, Gauge
from prometheus_client.metrics import MetricWrapperBase

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.providers import PROVIDERS
from mailsift.pipeline.throttle import Grant, LedgerKind, Report, SessionOutcome

T = TypeVar("T", bound=MetricWrapperBase)

OTHER: Final = "other"
"""The label of everything that a small set of labels does not name."""
LONG_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Upper ends of buckets for what may take minutes."""
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The same for what should take milliseconds."""
_PROVIDER_KEYS: Final = frozenset(row.key for row in PROVIDERS)


def declare(
    kind: type[T],
    name: str,
    documentation: str,
    labels: Mapping[str, Collection[str]] = MappingProxyType({}),
    **options: Any,
) -> T:
    """Return a metric that is in no registry: each process registers those it shows (mailsift.metrics).

    Args:
        kind: Counter, Gauge or Histogram.
        name: as Prometheus sees it.
        documentation: one line for whoever reads /metrics.
        labels: with the values that are there from the start, at 0, in every combination; () where the values
            come with what is counted.
        options: what this kind takes beside these.
    """
    metric = kind(name, documentation, tuple(labels), registry=None, **options)
    if labels:
        for values in product(*labels.values()):
            metric.labels(*values)
    return metric


SMTP_REPLIES: Final = declare(
    Counter,
    "mailsift_smtp_reply_total",
    "What mail servers said about mailboxes, or their silence",
    {"provider": [OTHER], "class": tuple(Answer)},
)
GRANTED: Final = declare(
    Counter, "mailsift_throttle_granted_total", "SMTP sessions the throttle allowed", {"provider": [OTHER]}
)
RECIPIENTS: Final = declare(
    Counter,
    "mailsift_throttle_recipients_total",
    "Recipients the throttle allowed in these sessions",
    {"provider": [OTHER]},
)
DENIED: Final = declare(
    Counter,
    "mailsift_throttle_denied_total",
    "SMTP sessions the throttle did not allow now: for its limits, or as the provider refuses us",
    {"provider": [OTHER], "reason": ["limit", "held"]},
)
SESSIONS: Final = declare(
    Counter,
    "mailsift_smtp_sessions_total",
    "SMTP sessions that are over, by what the throttle learned from them",
    {"provider": [OTHER], "outcome": tuple(SessionOutcome)},
)

LEDGER: Final = declare(
    Counter,
    "mailsift_ledger_total",
    "What sources asked of providers: recipients that were answered, random and unknown ones among them, "
    "and sessions in which we were refused, by what that was about",
    {"provider": [OTHER], "kind": tuple(LedgerKind)},
)

RESOLVERS: Final = declare(
    Gauge,
    "mailsift_dns_resolvers",
    "Resolvers as the processes see them: trusted while their canaries hold, and not asked otherwise",
    {"trust": ["trusted", "distrusted"]},
    multiprocess_mode="livesum",
)

UPKEEP_TASKS: Final = (
    *("clock", "schedule", "retention", "measure", "tidy", "drafts", "notice", "job_mail", "ledger"),
    *("listing", "attempts", "health", "webhook", "sweep", "heartbeat", "engine", "look_ahead", "wake_up"),
    *("dns", "throttle", "throttle_edits", "opt_outs", "usage", "key_use", "idempotency", "restart"),
    *("sweeper", "drain"),
)
"""What goes on in the background, beside lists and requests; a failure of one is logged as `<name>.error`."""
UPKEEP_ERRORS: Final = declare(
    Counter,
    "mailsift_upkeep_errors_total",
    "Tasks beside lists and requests that failed though nothing they need was away",
    {"task": UPKEEP_TASKS},
)

METRICS: Final = (UPKEEP_ERRORS, SMTP_REPLIES, GRANTED, RECIPIENTS, DENIED, SESSIONS, LEDGER, RESOLVERS)


def provider_label(key: str) -> str:
    """Return a throttle key as a label: the providers of the built-in table by name, all others as one.

    Outside the table a key is the domain of a customer's mail host: it belongs into no metric.
    """
    return key if key in _PROVIDER_KEYS else OTHER


def count_replies(answers: Iterable[tuple[str, Answer]]) -> None:
    """Count what was heard: throttle key and class of every mailbox that was asked about."""
    for (provider, answer), times in Tally(answers).items():
        SMTP_REPLIES.labels(provider_label(provider), answer).inc(times)


def count_grants(providers: Sequence[str], grants: Sequence[Grant]) -> None:
    """Count the throttle's answers, in the order of the throttle keys that were asked for."""
    for provider, grant in zip(providers, grants, strict=True):
        label = provider_label(provider)
        if grant.recipients:
            GRANTED.labels(label).inc()
            RECIPIENTS.labels(label).inc(grant.recipients)
        else:
            DENIED.labels(label, "held" if grant.blocked else "limit").inc()


def count_sessions(reports: Iterable[Report]) -> None:
    """Count the sessions that are reported."""
    for report in reports:
        label = provider_label(report.ask.provider)
        SESSIONS.labels(label, report.outcome).inc()
        for kind, count in report.ledger.counts.items():
            LEDGER.labels(label, kind).inc(count)
