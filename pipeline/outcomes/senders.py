"""Reads what mail senders' webhooks post: the diagnostic is read, their category is not believed.

Who opened a message or followed a link in it has it in a mailbox: it has been delivered. That holds for a
program that does so as well (a provider's image proxy, a scanner of links): it looks at mail that was taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from email.utils import parseaddr
from enum import StrEnum
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.outcome import (
    ACCEPTED,
    FAILURES,
    Outcome,
    OutcomeKind,
    ParsedOutcome,
    diagnose,
    kind_as_answered,
    kind_of_feedback,
    suppression_cause,
    whole_characters,
)
from mailsift.pipeline.outcomes.times import epoch

_Json: TypeAlias = Mapping[str, Any]


class SenderKind(StrEnum):
    """The mail senders whose webhooks are understood."""

    SES = "ses"
    SENDGRID = "sendgrid"
    POSTMARK = "postmark"
    MAILGUN = "mailgun"
    BREVO = "brevo"
    SPARKPOST = "sparkpost"
    LISTMONK = "listmonk"


def read_webhook(sender: SenderKind, body: bytes) -> tuple[ParsedOutcome, ...]:
    """Return the outcomes a webhook's body tells of; () for other events (sent, resubscribed).

    What cannot be read among others, or names no address, is None: they count all the same.

    Args:
        sender: who posts it.
        body: the request's body; of SES the `Message` of the SNS notification.

    Raises:
        MailsiftError: `malformed_outcome` for what is no such body, or has no event that can be read.
    """
    if sender is SenderKind.SES and body.startswith(SES_GREETING):
        return ()
    try:
        posted = json.loads(body)
        events = posted if isinstance(posted, list) else _events_in(posted)
    except _MALFORMED as error:
        raise _not_a_webhook(sender) from error
    results = [read_event(sender, event) for event in events]
    if results and all(outcomes == _UNREADABLE for outcomes in results):
        raise _not_a_webhook(sender)
    return tuple(chain.from_iterable(results))


def sender_of(record: _Json) -> SenderKind | None:
    """Return whose event a record of a file is, where nobody else's looks like it."""
    names = record.keys()
    return next(
        (kind for kind, sender in _SENDERS.items() if any(one <= names for one in sender.marks)), None
    )


_MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_UNREADABLE: Final[tuple[ParsedOutcome, ...]] = (None,)


def _not_a_webhook(sender: SenderKind) -> MailsiftError:
    return MailsiftError("malformed_outcome", f"This isn’t a {sender.value} webhook.")


def read_event(sender: SenderKind, event: Any) -> tuple[ParsedOutcome, ...]:
    """Return the outcomes that one event of a sender tells of; () for others, (None,) for a damaged one."""
    try:
        return tuple(_SENDERS[sender].read(_as_object(event)))
    except _MALFORMED:
        return _UNREADABLE


def _events_in(posted: Any) -> list[Any]:
    """Return the events of a body: most post one, some put them in an envelope."""
    for name in ("events", "results", "items", "Messages"):
        events = posted.get(name)
        if isinstance(events, list):
            return events
    data = posted.get("data")
    return data["results"] if isinstance(data, dict) and isinstance(data.get("results"), list) else [posted]


def _as_object(value: Any) -> _Json:
    if not isinstance(value, dict):
        raise TypeError(value.__class__.__name__)
    return value


def _value_at(record: _Json, path: str) -> Any:
    """Return what stands at a path such as "mail.messageId"; None where there is nothing."""
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(record: _Json, *paths: str) -> str:
    """Return the first text (or number) that stands at one of the paths."""
    values = (_value_at(record, path) for path in paths)
    found = (str(value) for value in values if isinstance(value, str | int | float) and str(value).strip())
    return whole_characters(next(found, ""))


def _outcome(  # noqa: PLR0913 - the fields of what is made
    sender: SenderKind,
    kind: OutcomeKind,
    address: str,
    when: object,
    *,
    words: str = "",
    status: str = "",
    message_id: str = "",
) -> Iterator[ParsedOutcome]:
    address = whole_characters(address)
    plain = parseaddr(address)[1] if "<" in address else address.strip()
    if "@" not in plain:
        yield None
        return
    kind = suppression_cause(words) or kind
    permanent = kind is OutcomeKind.BOUNCED
    diagnosis = diagnose(words, status=status, permanent=permanent) if kind in FAILURES else ACCEPTED
    kind = kind_as_answered(kind, diagnosis)
    yield Outcome(plain, kind, epoch(when), diagnosis, sender.value, message_id.strip("<> ")[:255])


def _by_event(**names: str) -> dict[str, OutcomeKind]:
    """Return what happened, by the names of the events that tell of it."""
    return {name: OutcomeKind(kind) for kind, text in names.items() for name in text.split()}


# Amazon SES, by event publishing and by identity notifications (its developer guide, "Event publishing").


def _ses(event: _Json) -> Iterator[ParsedOutcome]:
    name = _text(event, "eventType", "notificationType").lower().replace(" ", "")
    if name in _SES_EVENTS:
        yield from _ses_recipients(event, *_SES_EVENTS[name])
    elif name in _SES_UNSENT:
        words = f"unsent: {_text(event, _SES_UNSENT[name])}"
        yield from _ses_all(event, OutcomeKind.BOUNCED, _text(event, "mail.timestamp"), words=words)
    elif name == "subscription" and _value_at(event, "subscription.newTopicPreferences.unsubscribeAll"):
        yield from _ses_all(event, OutcomeKind.UNSUBSCRIBED, _text(event, "subscription.timestamp"))
    elif (
        name in _SES_LOOKED_AT and len(_value_at(event, "mail.destination") or ()) == 1
    ):  # else nobody knows by whom
        yield from _ses_all(event, OutcomeKind.DELIVERED, _text(event, f"{name}.timestamp"))


def _ses_recipients(event: _Json, kind: OutcomeKind, part: str, recipients: str) -> Iterator[ParsedOutcome]:
    details = _as_object(event[part])
    ses_kind = _ses_kind(kind, part, details)
    if ses_kind is None:
        return
    for recipient in details[recipients]:
        fields = recipient if isinstance(recipient, dict) else {"emailAddress": recipient}
        yield from _outcome(
            SenderKind.SES,
            ses_kind,
            _text(fields, "emailAddress"),
            _text(details, "timestamp", "arrivalDate") or _text(event, "mail.timestamp"),
            words=_text(fields, "diagnosticCode") or _text(details, "bounceSubType", "delayType"),
            status=_text(fields, "status"),
            message_id=_text(event, "mail.messageId"),
        )


def _ses_kind(kind: OutcomeKind, part: str, details: _Json) -> OutcomeKind | None:
    """Return what the details of an event make of it; None for nothing."""
    if part == "complaint":
        return kind_of_feedback(_text(details, "complaintFeedbackType"), unknown=kind)
    if part == "bounce" and details.get("bounceType") == "Transient":
        return OutcomeKind.BOUNCED if _is_permanent(details) else OutcomeKind.DEFERRED
    return kind


def _ses_all(event: _Json, kind: OutcomeKind, when: str, *, words: str = "") -> Iterator[ParsedOutcome]:
    """Yield the same for everybody the message was for."""
    message_id = _text(event, "mail.messageId")
    for address in _value_at(event, "mail.destination") or ():
        yield from _outcome(SenderKind.SES, kind, address, when, words=words, message_id=message_id)


_SES_EVENTS: Final = {
    "bounce": (OutcomeKind.BOUNCED, "bounce", "bouncedRecipients"),
    "complaint": (OutcomeKind.COMPLAINED, "complaint", "complainedRecipients"),
    "delivery": (OutcomeKind.DELIVERED, "delivery", "recipients"),
    "deliverydelay": (OutcomeKind.DEFERRED, "deliveryDelay", "delayedRecipients"),
}

SES_GREETING: Final = b"Successfully validated SNS topic"
"""What SES posts to a topic, in words alone, when its events are to go there."""
_SES_LOOKED_AT: Final = frozenset({"open", "click"})

_SES_UNSENT: Final = {"reject": "reject.reason", "renderingfailure": "failure.errorMessage"}
"""Events of messages that SES has not sent, and where they say why."""


def _is_permanent(bounce: _Json) -> bool:
    """Say whether SES gave a message up; a soft bounce that it calls transient is not tried again by SES."""
    actions = {str(_value_at(one, "action")).lower() for one in bounce.get("bouncedRecipients", ()) if one}
    return "failed" in actions


# Twilio SendGrid ("Event Webhook Reference").

_SENDGRID: Final = _by_event(
    delivered="delivered open click",
    deferred="deferred",
    bounced="bounce blocked dropped",
    complained="spamreport",
    unsubscribed="unsubscribe group_unsubscribe",
)


def _sendgrid(event: _Json) -> Iterator[ParsedOutcome]:
    name = _text(event, "event").lower()
    kind = _SENDGRID.get(name)
    words = _text(event, "reason", "response")
    if kind:
        yield from _outcome(
            SenderKind.SENDGRID,
            kind,
            _text(event, "email"),
            _text(event, "timestamp"),
            words=f"dropped: {words}" if name == "dropped" else words,
            status=_text(event, "status"),
            message_id=_text(event, "smtp-id", "sg_message_id"),
        )


# Postmark ("Webhooks", "Bounce types"): an automatic answer or a challenge is no bounce; a soft one may pass.

_POSTMARK_NO_BOUNCE: Final = frozenset(
    {"AutoResponder", "Subscribe", "AddressChange", "ChallengeVerification", "OpenRelayTest", "TestBounce"}
    | {"InboundError"}
)
_POSTMARK_SOFT: Final = frozenset({"Transient", "SoftBounce"})
_POSTMARK_UNSENT: Final = frozenset({"TemplateRenderingFailed", "SMTPApiError"})
_POSTMARK_SUPPRESSED: Final = _by_event(unsubscribed="ManualSuppression", complained="SpamComplaint")


def _postmark(event: _Json) -> Iterator[ParsedOutcome]:
    kind, words = _postmark_kind(event), _text(event, "Details", "Description")
    if _text(event, "Type") == "SpamNotification":  # the message was judged, whatever its "Details" say
        words = _text(event, "Description") or "classified as spam"
    dropped = "SuppressSending" in event or _text(event, "Type") == "ManuallyDeactivated"
    if dropped or _text(event, "Type") in _POSTMARK_UNSENT:
        words = f"{'dropped' if dropped else 'unsent'}: {words}"
    if kind:
        yield from _outcome(
            SenderKind.POSTMARK,
            kind,
            _text(event, "Email", "Recipient"),
            _text(event, "BouncedAt", "DeliveredAt", "ChangedAt", "ReceivedAt"),
            words=words,
            message_id=_text(event, "MessageID"),
        )


def _postmark_kind(event: _Json) -> OutcomeKind | None:
    record, kind = _text(event, "RecordType"), _text(event, "Type", "SuppressionReason")
    if record == "SubscriptionChange":  # of a hard bounce, which is told by itself too: no more is sent
        suppressed = _POSTMARK_SUPPRESSED.get(kind, OutcomeKind.BOUNCED)
        return suppressed if event.get("SuppressSending") is True else None
    if record == "Bounce" or (not record and kind):  # the first webhooks had bounces only, and no record type
        if kind in {"Unsubscribe", "SpamComplaint"}:
            return OutcomeKind.UNSUBSCRIBED if kind == "Unsubscribe" else OutcomeKind.COMPLAINED
        if kind in _POSTMARK_NO_BOUNCE:
            return None
        return OutcomeKind.DEFERRED if kind in _POSTMARK_SOFT else OutcomeKind.BOUNCED
    return _POSTMARK_RECORDS.get(record)


_POSTMARK_RECORDS: Final = _by_event(delivered="Delivery Open Click", complained="SpamComplaint")


# Mailgun ("Event structure").


def _mailgun(event: _Json) -> Iterator[ParsedOutcome]:
    data = event.get("event-data", event)
    name = _text(data, "event").lower()
    kind = _MAILGUN.get(name)
    if kind is OutcomeKind.BOUNCED and _text(data, "severity") == "temporary":
        kind = OutcomeKind.DEFERRED
    if kind:
        code = _text(data, "delivery-status.code")
        words = _text(data, "delivery-status.message", "delivery-status.description", "error", "reason")
        if name == "rejected":  # by Mailgun itself, before it was sent
            words = f"unsent: {_text(data, 'reject.reason')}"
        if (reason := _text(data, "reason")).startswith("suppress-"):
            words = f"{reason}: {words}"
        yield from _outcome(
            SenderKind.MAILGUN,
            kind,
            _text(data, "recipient"),
            _text(data, "timestamp"),
            words=f"{code} {words}".strip() if not words[:3].isdecimal() else words,
            status=_text(data, "delivery-status.enhanced-code"),
            message_id=_text(data, "message.headers.message-id"),
        )


_MAILGUN: Final = _by_event(
    delivered="delivered opened clicked",
    bounced="failed permanent_fail bounced dropped rejected",
    deferred="temporary_fail",
    complained="complained",
    unsubscribed="unsubscribed",
)


# Brevo ("Transactional webhooks" and "Marketing webhooks").

_BREVO: Final = _by_event(
    delivered="delivered opened unique_opened proxy_open unique_proxy_open click",
    bounced="hard_bounce blocked error invalid_email invalid",
    deferred="soft_bounce deferred",
    complained="spam complaint",
    unsubscribed="unsubscribed unsubscribe",
)

_BREVO_UNTRIED: Final = {"blocked": "dropped", "error": "unsent"}


def _brevo(event: _Json) -> Iterator[ParsedOutcome]:
    name = re.sub("(?<=hard|soft)bounce", "_bounce", _text(event, "event").lower().replace(" ", "_"))
    kind, words = _BREVO.get(name), _text(event, "reason")
    if kind:
        yield from _outcome(
            SenderKind.BREVO,
            kind,
            _text(event, "email"),
            _text(event, "ts_epoch", "ts_event", "ts", "date"),
            words=f"{_BREVO_UNTRIED[name]}: {words}" if name in _BREVO_UNTRIED else words,
            message_id=_text(event, "message-id"),
        )


# SparkPost and Bird ("Event reference").

_SPARKPOST: Final = _by_event(
    delivered="delivery open initial_open click amp_open amp_initial_open amp_click",
    bounced="bounce out_of_band policy_rejection generation_rejection generation_failure",
    deferred="delay",
    complained="spam_complaint",
    unsubscribed="list_unsubscribe link_unsubscribe",
)
_SPARKPOST_ANSWERS: Final = frozenset({"60", "80", "100"})
"""Classes of what came back and is no bounce: an absence note, a subscription, a challenge."""


def _sparkpost(event: _Json) -> Iterator[ParsedOutcome]:
    envelope = event.get("msys", event)
    details = next(iter(envelope.values()), {}) if "msys" in event else envelope
    name, words = _text(details, "type"), _text(details, "raw_reason", "reason")
    kind = _SPARKPOST.get(name)
    if kind is OutcomeKind.COMPLAINED:
        kind = kind_of_feedback(_text(details, "fbtype"), unknown=kind)
    if kind and _text(details, "bounce_class") not in _SPARKPOST_ANSWERS:
        yield from _outcome(
            SenderKind.SPARKPOST,
            kind,
            _text(details, "raw_rcpt_to", "rcpt_to"),
            _text(details, "timestamp"),
            words=f"unsent: {words}" if name == "generation_failure" else words,
            message_id=_text(details, "message_id"),
        )


# listmonk: its bounces as /api/bounces lists them, and as its own bounce webhook takes them ("Bounces"). What
# it has from a webhook of another sender stands in its `meta` as that sender has posted it.

_LISTMONK: Final = _by_event(
    bounced="hard", deferred="soft", complained="complaint", unsubscribed="unsubscribe unsubscribed"
)


def _listmonk(event: _Json) -> Iterator[ParsedOutcome]:
    kind, address = _LISTMONK.get(_text(event, "type").lower()), _text(event, "email")
    if kind:
        meta = _meta(event.get("meta"))
        sender = sender_of(meta)
        passed_on = read_event(sender, meta) if sender else ()
        of_recipient = [one for one in passed_on if one and one.address.casefold() == address.casefold()]
        if of_recipient:
            listed_at = epoch(_text(event, "created_at"))
            yield from (replace(one, happened_at=one.happened_at or listed_at) for one in of_recipient)
            return
        yield from _outcome(
            SenderKind.LISTMONK,
            kind,
            address,
            _text(event, "created_at") or _text(meta, "timestamp", "date"),
            words=_text(
                meta, "diagnostic", "diagnostic_code", "diagnosticCode", "reason", "response", "error"
            )
            or ("" if sender else " ".join(_sentences(meta))),
            status=_text(meta, "status"),
            message_id=_text(meta, "message_id", "messageId"),
        )


def _sentences(record: _Json) -> Iterator[str]:
    """Yield the texts of several words in an object and those in it."""
    for value in record.values():
        if isinstance(value, dict):
            yield from _sentences(value)
        elif isinstance(value, str) and " " in value:
            yield value


def _meta(value: Any) -> _Json:
    """Return listmonk's `meta`, an object or the JSON text of one, or a plain reason."""
    parsed = json.loads(value) if isinstance(value, str) and value.lstrip().startswith("{") else value
    if isinstance(parsed, dict):
        return parsed
    return {"reason": parsed} if isinstance(parsed, str) else {}


class _Sender(NamedTuple):
    """What a sender calls itself, what reads its events, and the fields that one has: any of these sets."""

    name: str
    read: Callable[[_Json], Iterator[ParsedOutcome]]
    marks: tuple[frozenset[str], ...] = ()


def _marks(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split()) for names in sets)


_SENDERS: Final = {
    SenderKind.SES: _Sender("Amazon SES", _ses, _marks("eventType mail", "notificationType mail")),
    SenderKind.SENDGRID: _Sender("SendGrid", _sendgrid, _marks("event sg_event_id", "event sg_message_id")),
    SenderKind.POSTMARK: _Sender("Postmark", _postmark, _marks("RecordType", "Type TypeCode Email")),
    SenderKind.MAILGUN: _Sender("Mailgun", _mailgun, _marks("event-data", "event recipient log-level")),
    SenderKind.BREVO: _Sender("Brevo", _brevo),
    SenderKind.SPARKPOST: _Sender("SparkPost", _sparkpost, _marks("msys")),
    SenderKind.LISTMONK: _Sender("listmonk", _listmonk, _marks("type email subscriber_uuid meta")),
}
SENDER_NAMES: Final = {kind: sender.name for kind, sender in _SENDERS.items()}
"""What they call themselves."""
