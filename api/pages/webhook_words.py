"""What befalls webhooks, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.outcome import ErrorClass
from events.retry import DeliveryState, Disabled

REASONS: Final[Mapping[str, str]] = {
    Disabled.NO: "",
    Disabled.BY_OWNER: "It was disabled here.",
    Disabled.BY_RECEIVER: "The receiver asked for it in an answer (webhook-delivery: disable).",
    Disabled.GONE: "The receiver answered 410: it says it is gone for good.",
    Disabled.FAILING: "It failed for five days, with ten deliveries given up.",
}
"""Why a webhook is disabled."""

STATES: Final[Mapping[str, str]] = {
    DeliveryState.PENDING: "Waits to be sent",
    DeliveryState.DELIVERING: "Is being sent",
    DeliveryState.SUCCEEDED: "Arrived",
    DeliveryState.EXHAUSTED: "Given up",
    DeliveryState.SKIPPED: "Skipped: the webhook was disabled",
}
"""Where a delivery stands."""

WRONG: Final[Mapping[str, str]] = {
    ErrorClass.NONE: "It arrived.",
    ErrorClass.DNS: "The name of the receiver could not be looked up.",
    ErrorClass.REFUSED: "Nobody listens there: the connection was refused.",
    ErrorClass.RESET: "The receiver broke the connection off.",
    ErrorClass.TIMEOUT: "The receiver did not answer in time.",
    ErrorClass.TLS: "No encrypted connection could be made: its certificate is not good.",
    ErrorClass.REDIRECT: "The receiver redirects; redirects are not followed. Register the final address.",
    ErrorClass.BLOCKED: "The address is not public; we send only to public addresses.",
    ErrorClass.HTTP_4XX: "The receiver refuses the request.",
    ErrorClass.HTTP_5XX: "The receiver has an error of its own.",
    ErrorClass.NOT_SENT: "It was not sent, and the fault is ours: the resolver or this machine has trouble.",
}
"""Why an attempt failed."""
