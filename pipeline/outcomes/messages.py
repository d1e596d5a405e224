"""Reads bounce messages, complaints and mail that unsubscribes.

Bounces as DSN (RFC 3464, RFC 6533) and in the free text of servers that know no format; complaints as ARF
(RFC 5965); what a List-Unsubscribe with an address brings (RFC 2369).
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import quopri
import re
import textwrap
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from email import message_from_bytes, message_from_string
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import HeaderParser
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import Final, NamedTuple
from urllib.parse import unquote

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import MAILBOX_REFUSALS, Answer
from mailsift.pipeline.lists import ROLES
from mailsift.pipeline.outcomes.outcome import (
    ACCEPTED,
    KIND_OF_CLASS,
    Diagnosis,
    Outcome,
    OutcomeKind,
    diagnose,
    kind_of_feedback,
    whole_characters,
)
from mailsift.pipeline.outcomes.senders import SenderKind, read_webhook
from mailsift.pipeline.outcomes.times import epoch

_MOST_TEXT = 200_000
_FIRST_TEXT = 10_000
_MOST_RECIPIENTS = 1_000
_MOST_PARTS = 200
_FEW = 5

_DAEMON_NAME: Final = (
    r"mailer[-_. ]?daemon|postmaster|mail delivery|mail[-_. ]?system|bounce|mdaemon|post[-_]master"
)

_NEVER_IN_ADDRESS: Final = r"\s<>\"(),:;@\[\]（）＜＞「」【】、。，：；“”《》"
_ADDRESS = re.compile(
    rf"[^{_NEVER_IN_ADDRESS}'][^{_NEVER_IN_ADDRESS}]{{0,63}}"
    rf"@(?:[^{_NEVER_IN_ADDRESS}.']{{1,63}}\.){{1,8}}[^{_NEVER_IN_ADDRESS}.']{{2,63}}"
)


def read_message(raw: bytes) -> tuple[Outcome, ...]:
    """Return what a message reports, one outcome for each recipient it names; () where it reports nothing.

    An absence note, a challenge or any other mail reports nothing.

    Args:
        raw: the message with its headers, with any line ends.

    Raises:
        MailsiftError: `malformed_message` for bytes that are no message.
    """
    try:
        message = _parse_message(raw.lstrip(b"\r\n \t"))
        parts = _parts(message)
        if not message.keys():
            raise MailsiftError("malformed_message", "This isn’t a mail message: it has no headers.")
        return tuple(_report(message, parts))[:_MOST_RECIPIENTS]
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise MailsiftError("malformed_message", "Can’t read the message.") from error  # RFC 5322's parser


def _parse_message(raw: bytes) -> Message:
    """Parse a message; headers in UTF-8 (RFC 6532) keep their letters."""
    raw = _SPOILT_TYPE.sub(rb"\1; ", raw)
    try:
        message = message_from_string(raw.decode())
    except UnicodeDecodeError:
        message = message_from_bytes(raw)
    payload = message.get_payload()
    if message.get_content_maintype() != "multipart" or not isinstance(payload, str):
        return message
    used = _BOUNDARY.search(payload)
    if used is None:  # nothing is divided
        # the library's set_type reads all parameters again for each of them
        parameters = str(message["Content-Type"]).partition(";")[2]
        message.replace_header("Content-Type", f"text/plain;{parameters}")
        return message
    message.set_boundary(used["boundary"])  # it was announced as another one
    return message_from_string(message.as_string())


_SPOILT_TYPE = re.compile(
    rb"^(Content-Type:[^\r\n]{3,200}?)(?:[ \t]*;)?[ \t]*(?:[\r\n]{1,2}[ \t]*|[ \t]+)"
    rb"(?=(?:boundary|charset)=)",
    re.MULTILINE | re.IGNORECASE,
)
"""A header that some write without the space by which it goes on (RFC 5322 section 2.2.3) or the semicolon
before its parameter (RFC 2045 section 5.1)."""
_BOUNDARY = re.compile(
    r"^--(?P<boundary>\S{1,70})[ \t]*\r?\nContent-(?:Type|Description):", re.MULTILINE | re.IGNORECASE
)


def _report(message: Message, parts: list[Message]) -> Iterator[Outcome]:
    feedback = next((part for part in parts if part.get_content_type() == "message/feedback-report"), None)
    if feedback is not None:
        return _complaints(message, feedback, parts)
    groups = [group for part in parts if _is_delivery_status(part) for group in _field_groups(part)]
    recipients = [group for group in groups if group["Final-Recipient"] or group["Original-Recipient"]]
    if recipients and not _are_local_destinations(message, recipients):
        return _without_those_that_arrived(_delivery_statuses(message, recipients, parts))
    original = _returned_headers(parts)
    if original is not None and original[_JUNK_REPORTER]:
        return _complaints(message, Message(), parts)
    if original is not None and _is_report(original):
        passed_on = tuple(_report(original, _parts(original)))
        if passed_on or not _is_bounce(message):
            return iter(passed_on)
    notification = next(
        (part for part in parts if part.get_content_type() == "message/disposition-notification"), None
    )
    if notification is not None:
        return _disposition(message, notification, parts)
    return (
        _ses_notification(parts)
        or _forwarded_bounce(message, parts)
        or _unsubscribed(message)
        or _reply_request(message, parts)
        or _unstructured_bounce(message, parts)
    )


def _ses_notification(parts: list[Message]) -> Iterator[Outcome] | None:
    """Return what a notification of Amazon SES tells that Amazon SNS sent by mail; None for other mail."""
    text = _human_text(parts).lstrip().replace("!\n ", "")  # Sendmail breaks long lines so
    if not _NOTIFICATION.match(text):
        return None
    event, _ = json.JSONDecoder().raw_decode(text)  # behind it SNS says how to stop them
    if "Message" in event:
        event = json.loads(event["Message"])
    return filter(None, read_webhook(SenderKind.SES, json.dumps(event).encode()))


_NOTIFICATION: Final = re.compile(r'\{\s*"(?:(?:notification|event)?Type)"\s*:')


def _is_report(message: Message) -> bool:
    """Say whether an attached message is itself a report, which somebody passed on."""
    return message.get_content_type() == "multipart/report" or _is_bounce(message)


def _parts(message: Message) -> list[Message]:
    """Return the parts of a report, outermost first, without those of a message that was returned."""
    found: list[Message] = []
    waiting = [message]
    while waiting and len(found) < _MOST_PARTS:
        part = waiting.pop(0)
        found.append(part)
        payload = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(payload, list):
            waiting[:0] = [one for one in payload if isinstance(one, Message)]
    return found


# Delivery status notifications.


def _is_delivery_status(part: Message) -> bool:
    """Say whether a part holds the fields of RFC 3464, also where it is labelled as a text."""
    if part.get_content_type() in _STATUS_TYPES:
        return True
    return part.get_content_maintype() == "text" and bool(_STATUS_FIELDS.search(_part_text(part)))


_STATUS_TYPES = frozenset({"message/delivery-status", "message/global-delivery-status"})

_STATUS_FIELDS = re.compile(
    r"^(?:Final|Original)-Recipient:.*\n(?:.+\n){0,6}?(?:Action|Status):", re.MULTILINE
)


def _are_local_destinations(message: Message, recipients: Sequence[Message]) -> bool:
    """Say whether the fields name files and programs, and Exim's own header the addresses."""
    named = (
        _recipient(group[name]) for group in recipients for name in ("Original-Recipient", "Final-Recipient")
    )
    return bool(message["X-Failed-Recipients"]) and not any(named)


def _field_groups(part: Message) -> list[Message]:
    """Return the groups of fields of a part (RFC 3464 section 2.1), in whatever encoding it came."""
    payload = part.get_payload()
    if isinstance(payload, list):
        text = "\n\n".join(_block_text(block) for block in payload if isinstance(block, Message))
        text = _decode_text(text, part)
    else:
        text = _part_text(part)
    groups = chain.from_iterable(map(_by_recipient, re.split(r"\n[ \t]*\n", _normalize_line_ends(text))))
    return [HeaderParser().parsestr(group.lstrip("\n")) for group in groups if ":" in group]


def _by_recipient(group: str) -> Iterator[str]:
    """Yield the fields of each recipient of a group that has several: nothing divides them as it should.

    Each has one Final-Recipient; before that stand the fields that do so at the first, and an
    Original-Recipient (RFC 3464 section 2.3), unless each has that behind it.
    """
    fields = _UNFOLDED.split(group.strip("\n"))
    names = [field.partition(":")[0].strip().lower() for field in fields]
    finals = [place for place, name in enumerate(names) if name == "final-recipient"]
    ahead = _FIELDS_OF_RECIPIENT.intersection(names[: finals[0]]) if finals else frozenset()
    if names.count("original-recipient") != len(finals):
        ahead |= {"original-recipient"}
    begins = [0]
    for final in finals[1:]:
        begin = final
        while names[begin - 1] in ahead:
            begin -= 1
        begins.append(begin)
    stretches = list(pairwise([*begins, len(fields)]))
    if all(_SAY_WHAT_HAPPENED.intersection(names[begin:end]) for begin, end in stretches):
        yield from ("\n".join(fields[begin:end]) for begin, end in stretches)
    else:  # one recipient by several names
        yield group


_UNFOLDED: Final = re.compile(r"\n(?![ \t])")
_SAY_WHAT_HAPPENED: Final = frozenset({"action", "status"})
_FIELDS_OF_RECIPIENT: Final = _SAY_WHAT_HAPPENED | {
    "original-recipient",
    "remote-mta",
    "diagnostic-code",
    "last-attempt-date",
}


def _block_text(block: Message) -> str:
    fields = "\n".join(f"{name}: {value}" for name, value in block.raw_items())
    payload = block.get_payload()
    if isinstance(payload, list):
        return "\n\n".join([fields, *(_block_text(one) for one in payload if isinstance(one, Message))])
    return f"{fields}\n\n{payload or ''}"


def _delivery_statuses(
    message: Message, recipients: Sequence[Message], parts: list[Message]
) -> Iterator[Outcome]:
    original = _returned_headers(parts)
    alone = len(recipients) == 1 and not any(map(_LIST_BOUNCE_ADDRESS.search, _addresses(message, "To")))
    text = _ReportText(parts, chain.from_iterable(map(_names_in, recipients)))
    by_name = _recipients_by_name(original) if original is not None else {}
    for group in recipients:
        status = str(group["Status"] or "").strip()
        action = str(group["Action"] or "").split("(")[0].strip().lower()
        kind = _ACTIONS.get(action) or KIND_OF_CLASS.get(status[:1])
        address = _original_recipient(group, message, original, by_name, alone=alone)
        if kind and address and action not in _NEUTRAL_ACTIONS:
            diagnosis = _diagnosis(group, kind, status, text)
            yield Outcome(
                address=address,
                kind=kind,
                happened_at=_parse_date(group["Last-Attempt-Date"], message["Date"], message["Received"]),
                diagnosis=_of_all_behind(address, _recipient(group["Final-Recipient"]), diagnosis),
                origin="dsn",
                message_id=_message_id(original),
            )


_ACTIONS: Final = {
    **dict.fromkeys(("failed", "failure", "expired"), OutcomeKind.BOUNCED),
    "delayed": OutcomeKind.DEFERRED,
    **dict.fromkeys(("delivered", "expanded"), OutcomeKind.DELIVERED),
}
_NEUTRAL_ACTIONS: Final = frozenset({"relayed", "deliverable"})
"""Actions of a system that will not hear what became of the message (RFC 3464 section 2.3.3), and of Postfix
that was asked to verify an address and sent none."""


def _without_those_that_arrived(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Leave out that a message failed for one behind an address where it arrived at another one."""
    every = list(outcomes)
    arrived = {one.address.casefold() for one in every if one.kind is OutcomeKind.DELIVERED}
    for one in every:
        if one.kind is OutcomeKind.DELIVERED or one.address.casefold() not in arrived:
            yield one


def _of_all_behind(address: str, failed: str, diagnosis: Diagnosis) -> Diagnosis:
    """Return what a diagnosis of the one that failed says of the address that was forwarded to it.

    Behind a role there may be several people, of whom others have got the message.
    """
    name, behind = (one.casefold().rpartition("@")[0].partition("+")[0] for one in (address, failed))
    of_many = name in ROLES and behind not in {"", name}
    return replace(diagnosis, answer=Answer.UNCLEAR) if of_many else diagnosis


def _names_in(group: Message) -> frozenset[str]:
    """Return the addresses by which the text for people may call the recipient of these fields."""
    found = (_recipient(group[name]) for name in ("Original-Recipient", "Final-Recipient"))
    return frozenset(address.casefold() for address in found if address)


def _diagnosis(group: Message, kind: OutcomeKind, status: str, text: _ReportText) -> Diagnosis:
    """Read the server's words; where the fields say nothing definite the text for people may."""
    if kind is OutcomeKind.DELIVERED:
        return ACCEPTED
    permanent = kind is OutcomeKind.BOUNCED
    words = " ".join(_decode_header(group["Diagnostic-Code"]).split())
    from_field = diagnose(words, status=status, permanent=permanent)
    if from_field.answer in MAILBOX_REFUSALS and _TO_SENDER in text.about(_names_in(group)):
        return diagnose(f"{words} {_TO_SENDER}", status=status, permanent=permanent)
    says_why = from_field.smtp_code or (words and from_field.answer is not Answer.UNCLEAR)
    if not says_why and not _OF_THE_DOMAIN.fullmatch(status):
        from_text = diagnose(text.about(_names_in(group)), permanent=permanent, beside=words)
        return from_text if from_text.answer is not Answer.UNCLEAR else from_field
    return from_field


_OF_THE_DOMAIN: Final = re.compile(r"[45]\.(?:1\.2|4\.[34]|4\.310)")
"""Status codes of a domain, or of the way to it (RFC 3463 sections 3.2 and 3.5; Exchange Online's)."""


def _original_recipient(
    group: Message, message: Message, original: Message | None, by_name: Mapping[str, str], *, alone: bool
) -> str:
    """Return the address the message was sent to: what failed may be where it was forwarded to.

    Where no Original-Recipient says so, the message's own To does, if the report is about one recipient,
    the message was at that address, and the To is not the sender or a mailing list, which everybody on the
    list would share. Some servers give the local part alone, by which `by_name` has the recipient.
    """
    first = _recipient(group["Original-Recipient"])
    final = _recipient(group["Final-Recipient"])
    if not first and not final:
        name = _decode_header(group["Final-Recipient"]).rpartition(";")[2].strip().casefold()
        return by_name.get(name, "")
    if first or not final or original is None or not alone:
        return first or final
    named = _addresses(original, "To")
    if len(named) != 1 or final.casefold() in _folded_addresses(original, "Cc", "Bcc"):
        return final
    is_recipient = named[0].casefold() not in _sender_or_list_addresses(original)
    return named[0] if is_recipient and _was_at(named[0].casefold(), message, original) else final


def _recipients_by_name(original: Message) -> dict[str, str]:
    """Return the recipients of a message by local part, in lower case, of which there is one with it."""
    sent_to = {one.casefold(): one for one in _addresses(original, "To", "Cc", "Bcc", "Delivered-To")}
    found: dict[str, str] = {}
    for folded, one in sent_to.items():
        name = folded.rpartition("@")[0]
        found[name] = "" if name in found else one
    return found


def _was_at(address: str, message: Message, original: Message) -> bool:
    """Say whether a message came as far as this address: by its trace, or who reports to whom that it failed.

    Else who is in its To may be another recipient than the one that failed, which a Bcc does not show.
    """
    domain = _domain(address)
    if any(one == domain or one.endswith(f".{domain}") for one in _domains(message, "From")):
        return True
    traced = chain(_addresses(original, *_TRACE), _verp_recipient(message, [address]))
    return address in map(str.casefold, traced)


_TRACE: Final = (
    *("Received", "Delivered-To", "X-Original-To", "Envelope-To"),
    *("X-Forwarded-For", "X-Forwarded-To"),
)

_LIST_BOUNCE_ADDRESS = re.compile(r"^owner-|-(?:bounces?|owner|admin|errors|request)@", re.IGNORECASE)
"""To whom a list has its bounces come: it sent to people whom the To of the message does not name."""


def _sender_or_list_addresses(original: Message) -> set[str]:
    """Return the addresses of a message that are its sender's or a mailing list's, in lower case."""
    names = ("From", "Sender", "Reply-To", "Return-Path", "List-Post", "X-BeenThere")
    return _folded_addresses(original, *names)


def _addresses(message: Message, *names: str) -> list[str]:
    values = (_decode_header(value) for name in names for value in message.get_all(name, []))
    return [address for value in values for address in _ADDRESS.findall(value)]


def _folded_addresses(message: Message, *names: str) -> set[str]:
    return set(map(str.casefold, _addresses(message, *names)))


def _domains(message: Message, *names: str) -> set[str]:
    return set(map(_domain, _addresses(message, *names)))


def _domain(address: str) -> str:
    return address.rpartition("@")[2].casefold()


def _recipient(field: str | None) -> str:
    """Return the address of a field such as "rfc822; <jane@example.com>" (RFC 3464 section 2.3, RFC 6533)."""
    kind, _, rest = _decode_header(field).partition(";")
    if not rest:
        kind, rest = "rfc822", kind
    if kind.strip().lower() not in {"rfc822", "utf-8", "smtp", "internet", "unknown"}:
        return ""
    text = whole_characters(_XTEXT.sub(lambda found: chr(int(found[1] or found[2], 16)), rest))
    found = _ADDRESS.search(text) or _QUOTED_ADDRESS.search(text)
    return found[0] if found else ""


_XTEXT = re.compile(r"\\x\{(10[0-9A-Fa-f]{4}|[0-9A-Fa-f]{2,5})\}|\+(2B|3D)(?=[^\s]*@)")
"""What RFC 6533 section 3 and xtext write for a character. Of those that xtext may not hold as they are (RFC
3461 section 4) an address has "+" and "=" alone: any other "+20" is a tag ("jane+2024@example.com")."""
_QUOTED_ADDRESS = re.compile(r'"[^"\r\n]{1,64}"@[\w.-]{1,255}')


# Complaints.

_JUNK_REPORTER: Final = "X-HmXmrOriginalRecipient"
"""Header by which Outlook.com names who called the message junk; it writes no feedback report."""


def _complaints(message: Message, feedback: Message, parts: list[Message]) -> Iterator[Outcome]:
    fields = next(iter(_field_groups(feedback)), Message())
    kind = kind_of_feedback(_decode_header(fields["Feedback-Type"]), unknown=None)
    original = _returned_headers(parts)
    if kind is None:
        return
    for address in _complaint_recipients(message, fields, original):
        happened = _parse_date(fields["Arrival-Date"], fields["Received-Date"], message["Date"])
        yield Outcome(address, kind, happened, ACCEPTED, "arf", _message_id(original))


def _complaint_recipients(message: Message, fields: Message, original: Message | None) -> list[str]:
    """Return whom the message had been sent to; a report may have it taken out of some of its fields."""
    values = (value for name in _COMPLAINANT_FIELDS for value in fields.get_all(name, []))
    named = [address for address in map(_recipient, values) if not _REDACTED_ADDRESS.match(address)]
    if not any(named):
        known = _addresses(original, "To") if original is not None else []
        senders = [fields["Original-Mail-From"], original["Return-Path"] if original is not None else ""]
        named = _decode_verp(map(_decode_header, senders), known) or _verp_recipient(message, known)
    if not any(named) and original is not None:
        shared = _sender_or_list_addresses(original)
        lists = (_addresses(original, name) for name in (_JUNK_REPORTER, "Delivered-To", "To"))
        others = ([one for one in values if one.casefold() not in shared] for values in lists)
        found = next(filter(None, others), []) or _single_outside_address(original)
        named = found if len({one.casefold() for one in found}) == 1 else []  # else nobody knows who it was
    return list(dict.fromkeys(filter(None, named)))


_COMPLAINANT_FIELDS: Final = ("Original-Rcpt-To", "Removal-Recipient")
_REDACTED_ADDRESS: Final = re.compile(
    r"(?:redacted|removed|withheld|anonym\w*|undisclosed|x{3,}|\*+)@", re.IGNORECASE
)


def _single_outside_address(original: Message) -> list[str]:
    """Return the one address of another domain than ours in what a newsletter adds, its links perhaps."""
    own_domains = _domains(original, "From", "Sender", "Return-Path")
    added = [name for name in original if name.lower().startswith("x-") or name.lower() == "list-unsubscribe"]
    values = (unquote(_decode_header(value)) for name in added for value in original.get_all(name, []))
    found = {one for value in values for one in re.split(r"[?&=:;,\s<>]", value) if _ADDRESS.fullmatch(one)}
    outside = [one for one in found if _domain(one) not in own_domains]
    return outside if len(outside) == 1 else []


# What people write.

_HEADER_NAMES: Final = {
    "From": "from von de da van från fra od от",
    "To": "to an à para a aan till til do komu кому",
    "Subject": "subject betreff objet asunto assunto oggetto onderwerp ämne emne temat předmět тема"
    " 件名 主题 主旨",
    "Date": "date sent gesendet datum envoyé enviado inviato data verzonden skickat sendt wysłano дата",
}
"""What mail programs call the headers of a message that they show, in the languages of their users."""
_AUTHOR, _ADDRESSEE, _TOPIC, _WHEN_SENT = ("|".join(names.split()) for names in _HEADER_NAMES.values())
_FORWARDED_HEAD: Final = re.compile(
    rf"(?:^[> ]*[\w-]{{2,20}}\s*:.*\n){{0,4}}^[> ]*(?:{_AUTHOR})\s*:.*(?:{_DAEMON_NAME}).*$",
    re.IGNORECASE | re.MULTILINE,
)


def _forwarded_bounce(message: Message, parts: list[Message]) -> Iterator[Outcome] | None:
    """Return what a bounce reports that somebody forwarded as text; None for any other mail."""
    if not _is_by_a_person(message) or _reports_failure(message, _human_text(parts)):
        return None
    text = _normalize_line_ends(
        "\n".join(_part_text(part) for part in parts if part.get_content_type() == "text/plain")
    )
    head = _FORWARDED_HEAD.search(text)
    if head is None:
        return None
    unquoted = re.sub(r"^[> ]+", "", text[head.start() :], flags=re.MULTILINE)
    inner = HeaderParser().parsestr(_in_english(unquoted))
    return None if _is_for_outsider(inner, message) else _unstructured_bounce(inner, [inner])


def _in_english(text: str) -> str:
    """Return a forwarded message with the names of its headers as in the message itself: "Von" is "From"."""
    head, blank, body = text.partition("\n\n")
    return _LOCAL_NAME.sub(_name_in_english, head) + blank + body


def _name_in_english(found: re.Match[str]) -> str:
    return f"{_HEADERS_IN_ENGLISH.get(found[1].casefold(), found[1])}:"


_LOCAL_NAME: Final = re.compile(r"^([^\W\d_]{1,12})[ \t\xa0]{0,2}:", re.MULTILINE)
_HEADERS_IN_ENGLISH: Final = {
    name: header for header, names in _HEADER_NAMES.items() for name in names.split()
}


def _is_for_outsider(bounce: Message, message: Message) -> bool:
    """Say whether a bounce was for who forwards it and is none of us: it is about a message of his own."""
    is_for_him = _folded_addresses(message, "From") & _folded_addresses(bounce, "To")
    return bool(is_for_him) and not _domains(message, "From") & _domains(message, *_RECIPIENT_HEADERS)


_ANGRY: Final = re.compile(
    r"\b(?:(?:this|it|that|your (?:e-?)?mail) is (?:just |pure )?(?:spam|junk)\b"
    r"|reported? (?:this|it|you)\b.{0,30}?\bspam"
    r"|never (?:signed up|subscribed|registered|asked for|consented|agreed|opted in)\b"
    r"|(?:do not|don.t|stop) (?:\w+ )?(?:writ\w+|mail\w*|e-?mail\w*|contact\w*|spamm\w+|send\w*) (?:to )?me\b"
    r"|(?:das|dies(?:er newsletter)?) ist spam"
    r"|nie(?:mals)? (?:\w+ )?(?:angemeldet|bestellt|eingewilligt|zugestimmt)"
    r"|c.est du (?:spam|pourriel)|jamais (?:été )?(?:inscrit|demandé|abonné|consenti)"
    r"|esto es spam|nunca (?:me )?(?:suscrib\w+|registr\w+|ped\w+)|nunca me (?:cadastrei|inscrevi)"
    r"|questo è spam|mai (?:stato )?iscritt\w+|dit is spam|nooit (?:\w+ )?aangemeld)",
    re.IGNORECASE,
)
_WANTS_NO_MAIL: Final = re.compile(
    r"\b(?:(?:remove|delete|take|drop|unsubscribe) (?:me|my (?:e-?mail |name|address)\w*)\b"
    r"|(?:no|not) (?:longer )?(?:want|wish|like) (?:to (?:get|receive|be))\b.{0,40}?(?:mail|newsletter|list)"
    r"|(?:nehmen|nimm|streichen|löschen|entfernen|tragen) (?:sie )?(?:mich|meine)\b"
    r"|(?:retire[rz]|supprime[rz]|enleve[rz]|désabonne[rz]|désinscri\w+)[- ](?:moi|mon|mes)\b"
    r"|me (?:retirer|désinscrire|désabonner)\b"
    r"|(?:quit|borr|elimin|d)(?:e|ar|en)?me\b.{0,20}?(?:lista|baja|correo)"
    r"|(?:me )?(?:remov|retir|descadastr|tir)\w+(?:-me)?\b.{0,20}?lista"
    r"|(?:toglie|cancella|rimuove)(?:te)?(?:mi|temi)\b"
    r"|(?:haal|verwijder|schrijf) (?:mij|me|mijn)\b|(?:ta bort|avregistrera|stryk) (?:mig|min)\b"
    r"|(?:fjern|slett|meld) (?:meg|mig|min)\b|(?:wypisa\w+|usun\w+) mnie\b|удалите меня|отпишите меня)",
    re.IGNORECASE,
)
_REPLY_SUBJECT: Final = re.compile(r"\s*(?:re|aw|antw|sv|vs|odp|ynt|rif|res?p?|ответ)\s*:", re.IGNORECASE)
_ABUSE_DESK: Final = re.compile(r"^(?:abuse|fbl|feedback|complaints?|spam|postmaster)\b", re.IGNORECASE)
_CALLED_SPAM: Final = re.compile(
    r"\b(?:spam|abuse|complaints?|junk|unsolicited|beschwerde|plainte)\b", re.IGNORECASE
)
_QUOTED: Final = re.compile(
    r"^(?:>.*|.{0,200}(?:wrote|schrieb|a écrit|escribió|escreveu|ha scritto|schreef) ?:.*)$", re.MULTILINE
)


def _reply_request(message: Message, parts: list[Message]) -> Iterator[Outcome] | None:
    """Return who calls a message of ours spam or wants no more of them; None for any other mail."""
    prose, subject = _human_text(parts), _decode_header(message["Subject"])
    is_of_desk = any(map(_ABUSE_DESK.search, _addresses(message, "From"))) and not _has_null_path(message)
    is_complaint = _CALLED_SPAM.search(subject) and not _FAILED.search(subject)
    if is_of_desk and is_complaint and not _DIGEST.match(subject):
        return _abuse_desk_complaint(message, f"{subject}\n{prose}")
    answers = message["In-Reply-To"] or _REPLY_SUBJECT.match(subject)
    if not answers or not _is_by_a_person(message):
        return None
    quoted = _QUOTED.search(prose)
    written = prose[: quoted.start() if quoted else None].strip()
    own_text = " ".join(written.split())
    for pattern, kind in ((_ANGRY, OutcomeKind.COMPLAINED), (_WANTS_NO_MAIL, OutcomeKind.UNSUBSCRIBED)):
        if pattern.search(own_text):
            return _recipient_request(message, kind, [], "reply")
    first = written.partition("\n\n")[0]
    if _ONE_WORD.fullmatch(first) and _UNSUBSCRIBE.fullmatch(first):
        return _recipient_request(message, OutcomeKind.UNSUBSCRIBED, [], "reply")
    return None


_ONE_WORD: Final = re.compile(r"\s*(?:please\s+)?\w+(?:\s+please)?\W*", re.IGNORECASE)


def _abuse_desk_complaint(message: Message, text: str) -> Iterator[Outcome] | None:
    """Return the one recipient that a provider's abuse desk names, in words instead of a report."""
    ours = {*_addresses(message, "From", "To", "Cc", "Reply-To")}
    customers = [one for one in dict.fromkeys(_ADDRESS.findall(text)) if one not in ours]
    return _recipient_request(message, OutcomeKind.COMPLAINED, customers[:1], "reply") if customers else None


def _disposition(message: Message, notification: Message, parts: list[Message]) -> Iterator[Outcome]:
    """Yield the recipient whose mail program tells what became of a message in his mailbox (RFC 8098)."""
    fields = next(iter(_field_groups(notification)), Message())
    address = _recipient(fields["Original-Recipient"]) or _recipient(fields["Final-Recipient"])
    kind, diagnosis = OutcomeKind.DELIVERED, ACCEPTED
    if "deleted" in _decode_header(fields["Disposition"]).lower() and _REFUSED.search(
        prose := _human_text(parts)
    ):
        kind, refusal = OutcomeKind.BOUNCED, diagnose(prose, permanent=True)
        diagnosis = refusal if refusal.answer is Answer.FULL else diagnose("", permanent=True)
    if address:
        message_id = _decode_header(fields["Original-Message-ID"]).strip(" <>")[:255]
        yield Outcome(address, kind, _parse_date(message["Date"]), diagnosis, "mdn", message_id)


_REFUSED = re.compile(r"\b(?:rejected|refused)\b", re.IGNORECASE)
"""So a mailbox's own rules, or its quota, tell that they did not take a message (RFC 5429 section 2.1.2): it
exists, whatever else its owner has them say."""


def _is_by_a_person(message: Message) -> bool:
    automatic = _decode_header(message["Auto-Submitted"]).strip().lower() not in {"", "no"}  # RFC 3834
    return not automatic and not message["X-Autoreply"] and not _is_bounce(message)


def _recipient_request(
    message: Message, kind: OutcomeKind, named: list[str], origin: str
) -> Iterator[Outcome]:
    """Yield what the recipient of a message of ours asks for: whom it was made for, is named, or writes."""
    senders = _addresses(message, "From")
    for address in [*_verp_recipient(message, senders), *named, *senders][:1]:
        yield Outcome(address, kind, _parse_date(message["Date"]), ACCEPTED, origin)


# Mail to the address of a List-Unsubscribe.

_UNSUBSCRIBE: Final = re.compile(
    r"\s*(?:(?:re|aw|fwd?)\s*:\s*)?(?:please )?(?:unsubscribe|unsub|opt[- ]?out|remove(?: me)?|stop"
    r"|abmeld\w*|abbestell\w*|austragen|désinscri\w+|désabonn\w+|desinscri\w+|desabonn\w+|baja|darme de baja"
    r"|cancelar (?:la )?suscripción|disiscri\w+|cancellami|afmeld\w*|uitschrijven|descadastrar"
    r"|cancelar inscrição|avregistrera|avmeld\w*|wypis\w*|odhlásit|отписаться|отписка|退订|配信停止|수신거부)"
    rf"(?: me| us| please)?(?:\W+(?P<address>{_ADDRESS.pattern}))?(?:\W+[\w=+/.-]{{6,200}})?\W*",
    re.IGNORECASE,
)
"""A subject that says so and nothing else but for whom, or a token of the sender's."""
_TO_LEAVE = re.compile(r"^(?:list-?)?(?:unsubscribe|unsub|leave|opt-?out)(?:[-+._=]|@)", re.IGNORECASE)


def _unsubscribed(message: Message) -> Iterator[Outcome] | None:
    """Return who wants no more mail, where a person or his mail program says so; None for any other mail."""
    subject = _decode_header(message["Subject"])
    if not _is_by_a_person(message):
        return None
    match = _UNSUBSCRIBE.fullmatch(subject)
    if not match and (subject.strip() or not any(map(_TO_LEAVE.search, _addresses(message, "To")))):
        return None
    named = [match["address"]] if match and match["address"] else []
    return _recipient_request(message, OutcomeKind.UNSUBSCRIBED, named, "unsubscribe")


# What servers write that know no report format.

_DAEMON = re.compile(_DAEMON_NAME, re.IGNORECASE)
_ABSENCE = re.compile(
    r"out of (?:the )?office|auto(?:matic|mated)?[ -]?(?:reply|response|antwort)|abwesen|absen[ct]|vacation"
    r"|on leave"
    r"|away from|fuera de (?:la )?oficina|not in the office"
    r"|(?:respuesta|resposta|réponse|risposta|răspuns|odpowied\w{1,20}|balasan|jawapan) autom\w+"
    r"|\bautom\w*[ -]?(?:antwo?o?r[dt]|svar|vastaus|válasz|odpově\w*|odpove\w*|odpowied\w*|odgovor"
    r"|atsakym\w*|atbild\w*|vastus)|autosvar|autoodpowied|otomatik (?:yanıt|cevap)|balasan otomatis"
    r"|авто(?:матич\w{1,20} |-?)(?:от|від)(?:вет|повід|говор)|αυτόματη απάντηση|trả lời tự động|ตอบกลับอัตโนมัติ"
    r"|自动(?:答复|回复)|自動(?:回[覆復]|応答|返信)|자동 ?(?:회신|응답)|رد (?:ال)?تلقائي"
    r"|(?:מענה|תשובה) אוטומטית?",
    re.IGNORECASE,
)
_DIGEST = re.compile(
    r"(?![^:]{0,40}(?:undeliver|deliver|fail|return)\w*[^:]{0,20}:).{0,80}?"  # what follows is ours
    r"\b(?:quarant\w*[ -](?:\w+ ){0,2}?(?:digest|summary|report|bericht|übersicht)"
    r"|(?:spam|junk|undeliver\w*)[ -](?:\w+ ){0,2}?(?:digest|summary)"
    r"|(?:messages|mails|nachrichten) (?:\w+ ){0,3}?(?:quarant\w*|on hold)\b)",
    re.IGNORECASE,
)
"""A filter tells somebody here what others have sent to him: nothing became of a message of ours."""


def _is_of_no_message(subject: str) -> bool:
    """Tell by its subject whether a message, whoever sent it, reports on none of ours."""
    return bool(_ABSENCE.search(subject) or _DIGEST.match(subject))


_DELIVERY: Final = (
    r"(?:nachrichten)?zustellung|remise|distribution|entrega|recapito|consegna|bezorging|aflevering|leverans|levering"
    r"|dostarcz\w{1,20}|доставк\w{0,20}"
)
_TROUBLE: Final = (
    r"fehler|fehlgeschlagen|gescheitert|échec|echec|échoué|erreur|error|fallid[oa]|fallo|falha|falhou"
    r"|non riuscit[oa]|fallit[oa]|mislukt|misslycka\w+|mislykke\w+|nie powiod\w+|niepowodzeni\w+"
    r"|ошибк\w+|сбой|не удал\w+"
)
_FAILED = re.compile(
    r"(?<![\d.])[45]\d\d[ \-#]|\b[45]\.\d{1,3}\.\d{1,3}\b|undeliver"
    r"|(?:could|can|was|were|has|have|will)(?: ?not|n.t)(?: be| been| able)?.{0,30}deliver"
    r"|unable to (?:be )?deliver|del[ei]ver(?:y|ing).{0,60}(?:fail|error|impossible|abort)"
    r"|(?:fail(?:ed|ure)|error).{0,40}deliver|non-?delivery"
    r"|(?:did not|didn.t) reach|failed (?:recipient|address)|no valid recipient|returned mail|mail returned"
    r"|(?:has been|was) returned (?:because|to you)"
    r"|unknown (?:user|recipient|mailbox|address|host|domain)|user unknown|no such user|returned to sender"
    r"|permanent(?: fatal)? (?:error|failure)"
    r"|unzustellbar"
    r"|non[- ]distribu|no se (?:ha )?pud?o entregar|nicht zugestellt|impossibile recapitare|nie zosta"
    r"|(?:n.a|n.ont) (?:pas )?pu (?:être )?(?:\w+ )?(?:remis|délivré|livré|distribué|acheminé)|non remis"
    r"|não (?:pôde|foi possível) (?:ser )?entreg|não entregue|(?:mancata|impossibile) (?:la )?consegna"
    r"|non (?:è stato|può essere) (?:possibile )?(?:recapitat|consegnat|inoltr)"
    r"|niet (?:worden )?(?:bezorgd|afgeleverd)"
    r"|не (?:может быть |удалось |был[оа]? )?доставл?|недоставлен|ikke leveres|inte levereras|teslim edilem"
    r"|nelze doručit|nebyl[ao]? doručen|nem (?:sikerült )?kézbesí|配信でき|配信不能|送信できません"
    r"|メールエラー|退信|无法(?:投递|送达|发送)"
    rf"|(?:{_DELIVERY})\b.{{0,60}}?\b(?:{_TROUBLE})|\b(?:{_TROUBLE})\b.{{0,60}}?\b(?:{_DELIVERY})"
    r"|無法(?:投遞|傳送|送達)|전송(?:되지|할 수|하지)|배달(?:되지|할 수|하지)",
    re.IGNORECASE,
)
_STILL_TRYING = re.compile(
    r"will (?:(?:be |keep |continue )(?:retr|try|to try|to be (?:tried|made))|retry\b|try again)"
    r"|(?:keep|continue|go on) trying|still (?:try|being tried)"
    r"|ha(?:s|ve) (?:not yet|yet to be|been delayed)"
    r"|(?:delivery|message|mail) (?:is |was )?delayed|(?:warning message|temporary failure|only a warning)\b"
    r"|no action is required|not necessary to re-?send|(?:kept|held|remains?) in the queue"
    r"|retardée?s?\b|verzöger\w+|ritardat\w|retrasad\w|atrasad\w|vertraagd|opóźnion\w+|försenad\w*|forsinket"
    r"|задерж\w+|延迟|延遲|遅延|지연"
    r"|not need to re-?send|delayed (?:mail|\d)|temporarily delayed|has not been delivered to all"
    r"|(?:noch nicht|nog niet|pas encore|todavía no|aún no|non (?:è |ha )?ancora|ainda não|ännu inte"
    r"|endnu ikke|ennå ikke|jeszcze nie|ещ[её] не|ještě ne|még nem|henüz)\b.{0,40}"
    r"(?:zugestellt|zustell|bezorg|afgelever|remis|délivr|livré|distribu|achemin|entreg|consegn|recapit|lever"
    r"|dostarcz|доставл|doruč|kézbes|teslim)",
    re.IGNORECASE,
)
_GIVEN_UP = re.compile(
    r"given up|giving up|permanent|final(?:ly)? fail|has failed|returned to sender|no longer|undeliverable",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|unless|until|once)\b[^.\n]{0,80}", re.IGNORECASE)
"""What has not come to pass: "you will be told if it fails permanently"."""
_COPY = re.compile(
    r"^[ \t>]*(?:-{2,}.{0,20}(?:below this line is a copy|this is a copy of|original message|returned message"
    r"|message header|copy of the message|transcript of mail|header of the original|headers? follow"
    r"|ursprüngliche nachricht|original-?nachricht|message d.origine|mensaje original|mensagem original"
    r"|messaggio originale|oorspronkelijk bericht|originalmeddelande|oryginalna wiadomość|исходное сообщение)"
    r"|original message (?:headers?|follows)|received: from )"
    r"|^[ \t>|*=-]*(?:[a-z]+ ){0,3}message (?:(?:text|contents?|headers?|body) )?follows?\b",
    re.IGNORECASE | re.MULTILINE,
)


def _unstructured_bounce(message: Message, parts: list[Message]) -> Iterator[Outcome]:
    """Read a bounce in prose (qmail, Exim, older Sendmail and others)."""
    failed_for = " ".join(_decode_header(value) for value in message.get_all("X-Failed-Recipients", []))
    named = _ADDRESS.findall(_RELAYED_ADDRESS.sub(r"\1@\2", failed_for))
    prose = _human_text(parts)
    if not named and not _is_bounce(message) and not _reports_failure(message, prose):
        return
    reported = _REPLY_WITH_CODE.sub("", prose)  # what a server says decides for its recipient alone
    still_trying = _STILL_TRYING.search(reported if _FAILED.search(reported) else prose)
    waits = still_trying and not _GIVEN_UP.search(_SUPPOSED.sub("", reported))
    kind = OutcomeKind.DEFERRED if waits else OutcomeKind.BOUNCED
    original = _returned_headers(parts)
    found = named or _failed_addresses(message, prose) or _recipients_named_by_local_part(original, prose)
    failed_addresses = list(dict.fromkeys(found))[:_MOST_RECIPIENTS]
    text = _ReportText(parts, map(str.casefold, failed_addresses))
    diagnoses = {address: _diagnosis_in_text(address, text, kind) for address in failed_addresses}
    kinds = dict.fromkeys(diagnoses, kind)
    clauses = _reasons_by_clause(message, prose) if len(failed_addresses) == 1 else {}
    if len(clauses) > 1 and clauses.keys() >= diagnoses.keys():
        if any(map(_STILL_TRYING.search, clauses.values())):
            kind = OutcomeKind.BOUNCED  # it waits for one of them
        kinds = {one: _kind_in_clause(words, kind) for one, words in clauses.items()}
        diagnoses = {
            one: diagnose(words, permanent=kinds[one] is OutcomeKind.BOUNCED)
            for one, words in clauses.items()
        }
    failed = _FAILED.search(prose) or _FAILED.search(_decode_header(message["Subject"]))
    tells_why = _is_by_daemon(message) and any(one.answer in MAILBOX_REFUSALS for one in diagnoses.values())
    if not (named or still_trying or failed or tells_why):
        return
    forwarded = _forwarded_from(diagnoses, prose)
    for address, diagnosis in diagnoses.items():
        sent_to = forwarded.get(address.lower()) or (
            _verp_recipient(message, [address]) if len(diagnoses) == 1 else []
        )
        mailed = sent_to[0] if sent_to else address
        of_all = _of_all_behind(mailed, address, diagnosis)
        happened = _parse_date(message["Date"])
        yield Outcome(mailed, kinds[address], happened, of_all, "bounce", _message_id(original))


def _reasons_by_clause(message: Message, prose: str) -> dict[str, str]:
    """Return the clauses of sentences that say why a message failed for somebody, by his address.

    A clause is about those whom it names in a row; where it names others, too, asks for something or
    supposes it, it says so of nobody, nor does a server's reply of whom it names itself.
    """
    ours = _folded_addresses(message, "From", "To")
    text = _SENDER.sub("", _of_the_failed(prose[:_FIRST_TEXT]))
    found: dict[str, str] = {}
    clauses = chain.from_iterable(map(_by_line, _CLAUSE.split(text)))
    for clause in map(_one_line, islice((one for one in clauses if "@" in one), _MOST_CLAUSES)):
        named = list(_ADDRESS.finditer(clause))
        if _is_about_all(named, clause) and diagnose(clause).answer is not Answer.UNCLEAR:
            addresses = (one[0] for one in named if not _DAEMON.search(one[0]))
            found |= {one: clause for one in addresses if one.casefold() not in ours and one not in found}
    return found


def _by_line(clause: str) -> Sequence[str]:
    """Return a clause, or its lines where several of them name somebody: rows of a table."""
    lines = clause.split("\n")
    return lines if sum("@" in line for line in lines) > 1 else [clause]


def _is_about_all(named: Sequence[re.Match[str]], clause: str) -> bool:
    code = (
        None
        if named and _NAMED_BY_REPLY.fullmatch(clause, 0, named[0].start())
        else _REPLY_WITH_CODE.search(clause)
    )
    between = (_BETWEEN_NAMES.fullmatch(clause, one.end(), two.start()) for one, two in pairwise(named))
    is_reply_about = named and code and code.start() < named[-1].start()
    return bool(named) and all(between) and not is_reply_about and not _IN_CASE.search(clause)


_MOST_CLAUSES: Final = 50
_CLAUSE: Final = re.compile(
    r"[.!?](?:\s+|$)|。|\n[ \t]*\n|;\s|,\s+(?:and|but|nor|while|whereas|und|aber|et|mais|y|pero|e|ma|mas|en"
    r"|maar|i|ale|a)\b",
    re.IGNORECASE,
)
_IN_CASE: Final = re.compile(
    r"\b(?:if|unless|please|should|ask|write|reach|call|wenn|falls|sollte\w*|bitte|si|veuillez|por favor"
    r"|per favore|indien|jeśli|jeżeli|proszę)\b|^\W*(?:se|caso|als)\b",
    re.IGNORECASE,
)


def _kind_in_clause(clause: str, kind: OutcomeKind) -> OutcomeKind:
    """Return what happened to a message by a clause about its recipient, else by the whole report."""
    if kind is OutcomeKind.BOUNCED and _STILL_TRYING.search(clause) and not _GIVEN_UP.search(clause):
        return OutcomeKind.DEFERRED
    return kind


def _diagnosis_in_text(address: str, text: _ReportText, kind: OutcomeKind) -> Diagnosis:
    """Read what a text says of an address; where it is the only one, perhaps before it."""
    permanent = kind is OutcomeKind.BOUNCED
    diagnosis = diagnose(text.about({address.casefold()}), permanent=permanent)
    if diagnosis.answer is Answer.UNCLEAR and not diagnosis.smtp_code and len(text.recipients) == 1:
        whole = diagnose(_HEADLINE.sub("", text.prose), permanent=permanent)
        return whole if whole.answer in MAILBOX_REFUSALS else diagnosis
    return diagnosis


_RELAYED_ADDRESS = re.compile(
    rf"([^{_NEVER_IN_ADDRESS}%]{{1,64}})%((?:[\w-]{{1,63}}\.){{1,8}}[a-z]{{2,63}})@[\w.-]{{1,255}}",
    re.IGNORECASE,
)
"""An address behind a relay: jane%example.com@relay.example.net (RFC 1123 section 5.2.16)."""


def _reports_failure(message: Message, prose: str) -> bool:
    """Say whether a message of nobody known as a mail server tells of a failure by its subject, and why."""
    subject = _decode_header(message["Subject"])
    if message["List-Unsubscribe"] or message["List-Id"] or _is_of_no_message(subject):
        return False
    is_failure = _FAILED.search(subject) and not re.match(
        r"\s*(?:re|aw|fwd?|wg|sv|tr) ?:", subject, re.IGNORECASE
    )
    named = _FAILED_FOR.search(prose[:_FIRST_TEXT])
    return bool(is_failure) and (named is not None or diagnose(prose).answer is not Answer.UNCLEAR)


_FAILED_FOR = re.compile(rf"(?:{_FAILED.pattern})[\s\S]{{0,100}}?{_ADDRESS.pattern}", re.IGNORECASE)
_FORWARDED = re.compile(
    r"[\s>]{0,40}\(?(?:ultimately )?(?:generated|expanded|forwarded) from:?\s+"
    rf"<?(?P<address>{_ADDRESS.pattern})",
    re.IGNORECASE,
)


def _forwarded_from(addresses: Iterable[str], prose: str) -> dict[str, list[str]]:
    """Return, by address in lower case, the one forwarded to it, as Exim, Postfix and Sendmail say."""
    wanted = {address.lower() for address in addresses}
    found: dict[str, list[str]] = {}
    for forwarded in _FORWARDED.finditer(prose):
        before = prose[max(0, forwarded.start() - _LONGEST_ADDRESS - _FAR_ENOUGH) : forwarded.start()].lower()
        before = _REASON_BETWEEN.sub("", before)[-_LONGEST_ADDRESS:]
        names = (before[begin.start() :] for begin in _NAME_BEGINS.finditer(before))
        for name in wanted.intersection(names):
            found.setdefault(name, [forwarded["address"]])
    return found


_LONGEST_ADDRESS: Final = 320
_FAR_ENOUGH: Final = 600
_REASON_BETWEEN = re.compile(r"[\s>]{0,40}\(reason: (?:(?!\(reason: )[\s\S]){0,500}\)\Z")
"""What Sendmail writes between an address and the one that it was expanded from."""
_NAME_BEGINS: Final = re.compile(r"(?<![\w.+%-])(?=\S)")


def _is_bounce(message: Message) -> bool:
    subject = _decode_header(message["Subject"])
    automatic = (
        message["X-Autoreply"] or message["X-Autorespond"] or message["X-Auto-Response-Suppress"] == "OOF"
    )
    if automatic or _is_of_no_message(subject):
        return False
    if _is_by_daemon(message) or message.get_param("report-type") == "delivery-status":
        return True
    answers = _decode_header(message["Auto-Submitted"]).strip().lower().startswith("auto-replied")  # RFC 3834
    return not answers and _has_null_path(message) and not message[_SENT_BY_RULES]


_SENT_BY_RULES: Final = "X-MS-Exchange-Inbox-Rules-Loop"
"""Header of what the rules of a mailbox of Exchange sent: its absence notes go out as if by a mail server."""


def _is_by_daemon(message: Message) -> bool:
    return bool(_DAEMON.search(_decode_header(message["From"])))


def _has_null_path(message: Message) -> bool:
    """Say whether nobody may answer a message, as with reports of mail servers (RFC 5321 section 4.5.5)."""
    return str(message["Return-Path"] or "").strip() == "<>"


def _failed_addresses(message: Message, prose: str) -> list[str]:
    """Return the addresses that a text calls undeliverable: those that stand first in a line, else any."""
    ours = _folded_addresses(message, "From", "To")
    prose = _of_the_failed(prose)
    listed = _LISTED.search(prose)
    listing = prose[listed.end() :] if listed else ""
    if listing and not _ADDRESS.search(listing) and (named := _local_parts(message, listing)):
        return named
    listing = _X400.sub("", listing if _ADDRESS.search(listing) else prose)
    lines = _addresses_in_lines(listing)
    anywhere = [found for found in _ADDRESS.findall(_SENDER.sub("", listing)) if not _DAEMON.search(found)]
    others = [address for address in anywhere if address.casefold() not in ours]
    own = _of_the_reporter(message, others)
    return (
        [address for address in lines if address.casefold().strip(".") not in ours]
        or _addresses_said_to_fail(others, listing)
        or (own or others)[:1]
        or _verp_recipient(message, anywhere)
    )


def _of_the_failed(prose: str) -> str:
    """Return a text without the addresses in it at which somebody is now, or which a server has named."""
    left = _ELSEWHERE.sub(" ", prose)
    asked = _ANSWERED.sub("", left)
    return asked if _ADDRESS.search(asked) else left


def _of_the_reporter(message: Message, addresses: Sequence[str]) -> list[str]:
    """Return the addresses at the domain of a server of others: what it could not deliver was for it."""
    reporter = _domains(message, "From") - _domains(message, "To")
    return [one for one in addresses if _domain(one) in reporter]


def _addresses_said_to_fail(addresses: Sequence[str], prose: str) -> list[str]:
    """Return the first address of which a sentence tells a failure, or that its mailbox is none."""
    sentences = _SENTENCE.split(prose[:_FIRST_TEXT])
    return [
        address
        for address in addresses[:_FEW]
        for sentence in [sentence for sentence in sentences if address in sentence][:_FEW]
        if _FAILED.search(sentence) or diagnose(sentence).answer in MAILBOX_REFUSALS
    ][:1]


_SENTENCE = re.compile(r"[.!?:](?:\s+|$)|\n[ \t]*\n")

_LISTED = re.compile(
    r"(?:following|failed|these|intended) (?:\w+ ){0,2}(?:recipient|address|user)[^\n]{0,150}[:\n]"
    r"|(?:folgende\w*(?:\(\w\))?|diese) (?:\w+ ){0,2}(?:empfänger|adresse)\w*[^\n]{0,150}[:\n]"
    r"|(?:siguientes?|seguenti|seguintes?) destinat[aá]ri[^\n]{0,150}[:\n]"
    r"|volgende ontvanger[^\n]{0,150}[:\n]"
    r"|(?:destinataires?|adresses?|destinatari(?:os)?|direcciones) (?:suivante?s?|siguientes?|seguent[ie])"
    r"[^\n]{0,150}[:\n]",
    re.IGNORECASE,
)
"""Behind it a report lists whom it is about; before it, it may say to whom the message was addressed."""
_X400 = re.compile(r"(?<!\S)\S{0,200}\bSMTP=(?=\S{1,64}@)", re.IGNORECASE)
"""What Exchange 5.5 writes before an Internet address."""
_NEW: Final = (
    r"(?:new|neu(?:e[rn]?)?|nouv(?:el(?:le)?|eau)|nuev[oa]|nuov[oa]|nov[oaáýé]|nieuwe?|now[yae]|ny(?:tt|a)?|uusi"
    r"|yeni|új|nou[aă]?|нов(?:ый|ая|а)|nov[ií]|alternative?|alternate|ersatz|updated)"
)
_WORDS_OF_ADDRESS: Final = (
    r"(?:(?:e-?)?mail(?:-?adress?e?)?|add?ress?e?n?|adresa|adresi|adresem?|direcci[oó]n|indirizzo"
    r"|endere[cç]o|osoite|c[ií]m[ei]?|адрес\w*|почт\w+|courriel|correo|electr[oó]nico|eletr[oô]nico|posta|elettronica|sähköposti\w*|de|di|d)"
)
_INSTEAD: Final = (
    r"(?:(?:please |kindly )?(?:use|write to)(?: instead)?"
    r"|instead|(?:has |have |was |been ){0,2}(?:moved|changed) to|geändert in|künftig unter|is now"
    r"|(?:can )?now (?:be )?(?:at|under|reached at)|replaced by|replacement"
    r"|successor|forward(?: it| mail)?(?: to)?|bitte (?:verwenden|nutzen|benutzen)(?: sie)?"
    r"|schreiben sie (?:bitte )?an|stattdessen|nachfolger(?:in)?|vertretung|ersatz\w*|jetzt(?: unter)?"
    r"|utilise[rz]|veuillez utiliser|désormais|écri(?:re|vez) à|remplacée? par|remplaçante?|usar|use o"
    r"|utili(?:ce|zar|ze|zzare)|ahora|agora|ora|escriba a|escreva para|scrivere a|sustitut[oa]|substitut[oa]"
    r"|sostitut[oa]|gebruik(?: a\.?u\.?b\.?)?|voortaan|opvolger|proszę (?:użyć|pisać na)|następca|teraz"
    r"|použijte|använd|brug|bruk|käytä|используйте|пишите на|теперь|преемник)"
)
_ELSEWHERE = re.compile(
    rf"(?:\b{_NEW}(?:[ -']{{1,2}}{_WORDS_OF_ADDRESS}){{0,4}}\b|\b{_WORDS_OF_ADDRESS} {_NEW}\b|\b{_INSTEAD}\b"
    r"|新(?:しい)?(?:メール)?(?:アドレス|地址|邮箱|郵箱|信箱)(?:は|是|为)?|새 ?(?:이메일 ?)?주소(?:는)?)"
    r"(?:,? (?:is|are|the|this|address|following|ist|lautet|sie|die|adresse|est|es|è|é|er|är|jest|je|on|l|à"
    r"|an|at|to|now|a|al|il|la|el|o|de|new)){0,6}"
    rf"[ \t]*[:=：]?\s{{0,4}}[<\"'(]?{_ADDRESS.pattern}[>\"')]?",
    re.IGNORECASE,
)
"""Where somebody can be written to now: not the address that is gone, of which the text speaks."""
_ANSWERED = re.compile(r"^[ \t>]*<<< [245]\d\d.*$", re.MULTILINE)
"""What a server said in a transcript of Sendmail: whom that names need not be whom it was asked about."""
_SENDER = re.compile(
    rf"\b(?:(?:mail|messages?|e-?mail) from|sent by|contact)\b[\s:]{{0,3}}<?{_ADDRESS.pattern}", re.IGNORECASE
)


def _local_parts(message: Message, listed: str) -> list[str]:
    """Return the recipients of a list that has each in a line, by the local part at the reporter's domain."""
    domain = next((name.partition("@")[2] for name in _addresses(message, "From")), "")
    return [f"{name}@{domain}" for name in _NAME_ALONE.findall(listed)] if domain else []


_NAME_ALONE = re.compile(r"^[ \t]+([\w.+-]{1,64})[ \t]*$", re.MULTILINE)


def _recipients_named_by_local_part(original: Message | None, prose: str) -> list[str]:
    """Return the recipient of the returned message that a text without addresses calls by the local part."""
    if original is None:
        return []
    shared = _sender_or_list_addresses(original)
    recipients = [address for address in _addresses(original, "To", "Cc") if address.casefold() not in shared]
    mentioned = [
        address
        for address in recipients
        if re.search(rf"\b{re.escape(address.split('@')[0])}\b", prose, re.IGNORECASE)
    ]
    return mentioned or (recipients if len(recipients) == 1 else [])


def _verp_recipient(message: Message, named: Sequence[str]) -> list[str]:
    """Return the recipient that the address a report came to was made for: jane=example.com (VERP)."""
    return _decode_verp(
        (_decode_header(value) for name in _RECIPIENT_HEADERS for value in message.get_all(name, [])), named
    )


def _decode_verp(senders: Iterable[str], named: Sequence[str]) -> list[str]:
    """Return the recipient in the first of these addresses that was made for one.

    What stands before the local part, a number or the list's name, is told from it by the addresses that the
    report names, a number by itself; one that cannot be told from a tag ("news+jane", "jane+news") is no
    recipient.
    """
    match = next(filter(None, map(_VERP.search, senders)), None)
    if match is None:
        return []
    whole = f"{match['local']}@{match['domain']}"
    known = [one for one in named if re.search(rf"(?:^|[-+_.]){re.escape(one)}$", whole, re.IGNORECASE)]
    bare = _NUMBERED.sub("", whole)
    return known[:1] or ([] if "+" in bare else [bare])


_NUMBERED = re.compile(r"^(?:\d+[-+_])+(?=[^@])")

_RECIPIENT_HEADERS: Final = ("Delivered-To", "X-Original-To", "Envelope-To", "To")
_VERP = re.compile(
    r"(?:-return-(?:\d+|(?:warn|probe)-\d+\.[a-z]+)-|[+-](?!.*-return-))(?P<local>[^\s@<>=]{1,64})=(?P<domain>(?:[\w-]{1,63}\.)+[a-z]{2,63})@",
    re.IGNORECASE,
)

_NOT_A_FAILED_RECIPIENT: Final = (
    r"[\w '/-]{0,30}\b(?:from|sender|sent by|reply|cc|bcc|contact|help|support|abuse|questions?|owner"
    r"|administrator|von|absender|de|expéditeur|remitente|mittente|original message|subject"
    r"|betreff|objet|asunto|(?:ansprech|kontakt|contact|contato|contatto|contacto|yhteys|iletişim|контакт)\w*"
    r"|fragen|hilfe|aide|ayuda|ajuda|aiuto|hulp|pomoc|hjälp|hjelp|hjælp|moved|changed|geändert\w*|private?"
    r"|personal|persönlich\w*|privat\w*)\b"
)
_LINE_ADDRESS = re.compile(
    rf"^(?P<indent>[ \t*>-]{{0,8}})(?:(?!{_NOT_A_FAILED_RECIPIENT})[a-z][\w '/-]{{1,40}}\s*:\s*|\[smtp:)?"
    rf"[<\"']?(?P<address>{_ADDRESS.pattern})[>\"']?"
    r"(?=[ \t]*(?:$|[:;,(\[\]]|\.(?!\w)|-{1,3}[ \t]|on \w{2,4}[.,] "
    r"|(?:on|am|le|el|il|em|op) \d{1,4}[./-]\d))",
    re.MULTILINE | re.IGNORECASE,
)
"""So a report lists whom it is about; Exchange adds when: "on Tue, 3 Nov 2026", "am 03.11.2026"."""


def _addresses_in_lines(text: str) -> list[str]:
    """Return the addresses that stand first in a line; one further in than the first goes on with words."""
    found = list(_LINE_ADDRESS.finditer(text))
    return [one["address"] for one in found if len(one["indent"]) <= len(found[0]["indent"])]


_REPLY_WITH_CODE = re.compile(
    r"(?<![\d.])[45]\d\d[\s\-](?:.|\n){0,1500}?"
    r"(?=\n.{0,60}(?:-->|<--|>>>|<<<)|\n[ \t]*(?:---|$|giving up on|(?:delivery )?last attempt)"
    r"|\]\s*\n|(?<!:)\n[ \t]*(?!requested |\w+ (?:address|command|host) rejected)(?-i:[A-Z])[\w -]{2,30}: "
    r"|\n[ \t]*\.\.\. while talking to |\Z)",
    re.IGNORECASE | re.MULTILINE,
)
"""A reply with its code, up to what the reporter adds: the next line of a transcript, another paragraph."""


class _Mark(NamedTuple):
    """Where a text names a recipient, what it says of him above and ahead of that, and where this begins."""

    start: int
    end: int
    name: str
    begins: int
    above: str
    ahead: str


class _ReportText:
    """What a report says to people, and of whom.

    Args:
        parts: those of the report.
        recipients: the addresses by which it may call those it is about, in lower case.
    """

    def __init__(self, parts: list[Message], recipients: Iterable[str]) -> None:
        self._parts = parts
        self.recipients = frozenset(recipients)

    @cached_property
    def prose(self) -> str:
        """The text."""
        return _human_text(self._parts)

    @cached_property
    def _marks(self) -> list[_Mark]:
        """Where it names its recipients, or blames anybody else."""
        lines = _addresses_in_lines(_of_the_failed(self.prose))
        known = self.recipients.union(map(str.casefold, lines))
        named = ((found, found[0].rpartition("=")[2].casefold()) for found in _ADDRESS.finditer(self.prose))
        return [
            _Mark(found.start(), found.end(), name, *self._begin_of(found, name))
            for found, name in named
            if name in known
        ]

    def _begin_of(self, named: re.Match[str], name: str) -> tuple[int, str, str]:
        """Return where begins what is said of who is named, and the reason above him or ahead in his line."""
        begins, reason = _reason_above(named, self.prose)
        nearest = max(0, begins - _LONGEST_LINE)
        line = self.prose.rfind("\n", nearest, begins) + 1
        ahead = self.prose[line:begins] if name in self.recipients and (line or not nearest) else ""
        if _NAMED_BY_REPLY.fullmatch(ahead):
            return line, reason, ""
        is_why = "@" not in ahead and _LINE_ENDS.match(self.prose, named.end()) and _says_why(ahead)
        return (line, reason, ahead) if is_why else (begins, reason, "")

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Which marks name whom."""
        places: dict[str, list[int]] = {}
        for place, mark in enumerate(self._marks):
            places.setdefault(mark.name, []).append(place)
        return places

    @cached_property
    def _rows(self) -> list[int]:
        """Of each mark the last one of those that are named in a row with it and behind it."""
        rows = list(range(len(self._marks)))
        for place, (mark, following) in reversed(list(enumerate(pairwise(self._marks)))):
            if _BETWEEN_NAMES.fullmatch(self.prose, mark.end, following.begins):
                rows[place] = rows[place + 1]
        return rows

    @cached_property
    def _list_end(self) -> int:
        """Where a list of recipients begins, 0 where there is none."""
        listed = _LISTED.search(self.prose[:_FIRST_TEXT])
        return listed.end() if listed else 0

    @cached_property
    def _coded_above(self) -> str:
        """A reply with its code that stands before all recipients."""
        coded = _REPLY_WITH_CODE.search(self.prose[: self._marks[0].begins] if self._marks else self.prose)
        return _one_line(coded[0]) if coded else ""

    def about(self, names: Collection[str]) -> str:
        """Return what is said of one recipient, called by these names; "" where it may be of another one."""
        spoken = [self._spoken_at(place, names) for place in self._own_places(names)]
        if words := _reason_in(spoken):
            return words
        has_others = any(name not in names for name in chain(self.recipients, self._places))
        if has_others and spoken and (words := _one_line(spoken[0])):
            return words
        if (self._marks or not has_others) and self._coded_above:
            return self._coded_above
        return "" if has_others else _one_line(self.prose)

    def _places_of(self, names: Collection[str]) -> list[int]:
        return sorted(chain.from_iterable(self._places.get(name, ()) for name in names))

    def _own_places(self, names: Collection[str]) -> list[int]:
        """Return which marks name the recipient: in what a report lists, if it is there."""
        own = self._places_of(names)
        behind = [place for place in own if self._list_end and self._marks[place].start >= self._list_end]
        return (behind or own)[:_FEW]

    def _spoken_at(self, place: int, names: Collection[str]) -> str:
        """Return what is said where a recipient is named: above it in its paragraph, or behind it.

        What stands behind it goes up to the next one who is blamed; where several are named in a row, it is
        said of each, if it is one thing.
        """
        mark = self._marks[place]
        if _REPLY_WITH_CODE.search(mark.above) or _says_why(mark.above):
            return mark.above
        last, end = self._end_of_row(place, names)
        begin = self._marks[last].end
        behind = self.prose[begin : min(end, begin + _FIRST_TEXT)]
        spoken = "" if last > place and len(_REPLY_WITH_CODE.findall(behind)) > 1 else behind
        return f"{mark.ahead}\n{spoken}" if mark.ahead else spoken

    def _end_of_row(self, place: int, names: Collection[str]) -> tuple[int, int]:
        """Return the last mark named in a row with one, and where the next one behind that begins.

        Marks of the same recipient don't count; a stretch without them is passed in one step.
        """
        own = self._places_of(names)
        last, count = place, len(self._marks)
        others = (one for one in range(place + 1, count) if self._marks[one].name not in names)
        for following in others:
            if following <= last:
                continue
            begins = self._marks[following].begins
            if following == last + 1:
                next_own = bisect_right(own, last)
                furthest = min([self._rows[last], *(one - 1 for one in own[next_own : next_own + 1])])
            else:
                between = _BETWEEN_NAMES.fullmatch(self.prose, self._marks[last].end, begins)
                furthest = following if between else last
            if furthest == last:
                return last, begins
            last = furthest
        return last, len(self.prose)


def _reason_in(texts: Sequence[str]) -> str:
    """Return the first reply with a code, else the first words that say why."""
    for text in texts:
        if coded := _REPLY_WITH_CODE.search(text):
            words = " ".join(coded[0].split())[:1_500]
            is_to_sender = _BEFORE_RECIPIENT.search(text[: coded.end()]) or _TRANSCRIPT_OF_SENDER.search(text)
            return f"{words} {_TO_SENDER}" if is_to_sender else words
    blocks = (text.strip(" \n\t:>") for text in texts)
    found = (_one_line(part) for block in blocks for part in (block.partition("\n\n")[0], block))
    return next((one for one in found if _FAILED.search(one) or _says_why(one)), "")


_TO_SENDER: Final = "(in reply to MAIL FROM command)"
"""Says, as Postfix does, that a refusal is of the sender: no recipient had been named yet."""
_BEFORE_RECIPIENT = re.compile(
    r"after (?:pipelined )?(?:MAIL FROM|[EH]E?HLO|STARTTLS|AUTH|initial connection)\b"
    r"|refused to talk to me|but (?:sender was rejected|greeting failed|my name was rejected)"
)
"""So Exim, Postfix and qmail say the same before a reply."""
_TRANSCRIPT_OF_SENDER = re.compile(r"^>>> (?:MAIL|[EH]E?HLO)\b.{0,400}\n<<< 5", re.MULTILINE)


def _says_why(text: str) -> bool:
    return diagnose(text).answer is not Answer.UNCLEAR


def _reason_above(named: re.Match[str], prose: str) -> tuple[int, str]:
    """Return where the reason begins that stands above a recipient, who has the last line of its paragraph.

    Where there is none, or it only says that somebody is named next, it begins where the recipient is named.
    """
    nearest, furthest = max(0, named.start() - _LONGEST_REASON), named.end() + _LONGEST_REASON
    before = prose.rfind("\n\n", nearest, named.start())
    behind = prose.find("\n\n", named.end(), furthest)
    begin, end = before + 2 if before >= 0 else nearest, behind if behind >= 0 else furthest
    reason, _, last = prose[begin:end].rstrip().rpartition("\n")
    label, _, field = last.rpartition(":") if _REASON_FIELD.match(reason) else ("", "", last)
    is_last = "@" not in label and field.strip(' \t<>*"').casefold() == named[0].casefold()
    if is_last and re.search(r"\w \w", reason) and reason.rstrip()[-1:] != ":":
        return begin, reason
    return named.start(), ""


_LONGEST_REASON: Final = 2_000
_REASON_FIELD: Final = re.compile(
    r"[ \t]*(?:reason|errore?|cause|diagnos\w+|grund|fehler|ursache|motif|raison|motivo|causa|reden|fout)"
    r"[\w ]{0,20}:",
    re.IGNORECASE,
)
"""So a paragraph of fields begins whose recipient is behind the reason."""
_LONGEST_LINE: Final = 200
_LINE_ENDS: Final = re.compile(r"[>\"')\].]*[ \t]*(?:\n|\Z)")
_NAMED_BY_REPLY: Final = re.compile(r"[ \t]*(?:<<< )?[45]\d\d[ -](?:[45]\.\d{1,3}\.\d{1,3} )?<?")
"""What stands in a line before a recipient whom a reply names first: the reply is about him alone."""
_BETWEEN_NAMES: Final = re.compile(r"[\s<>,;\"'()&]*(?:\b(?:and|und|et|y|e|en|och|og|i)\b[\s<>,;\"'()&]*)?")


def _one_line(text: str) -> str:
    """Return a text in one line, without fields that name an address, a host or a file: "Sender: <a@b>"."""
    return " ".join(_HEADLINE.sub("", _FIELD.sub("", text)).split())[:1_500]


_FIELD = re.compile(r"^[ \t]*[A-Z][\w -]{2,30}:[ \t]+<[^<>\n]{0,320}>[ \t]*$", re.MULTILINE)
_HEADLINE = re.compile(
    rf"\b(?:messages?|e-?mails?|mail)\s+(?:to|for)\s+<?{_ADDRESS.pattern}>?\s+(?:was|is|were|has been)"
    r"\s+undeliverable\b",
    re.IGNORECASE,
)
"""What a report is about, and no reason: a server that says so of itself has a code before it."""


# Parts, headers and texts.


def _human_text(parts: list[Message]) -> str:
    """Return what a report says to people, without the message it returns."""
    texts = [_part_text(part) for part in parts if part.get_content_type() == "text/plain"]
    if not any(text.strip() for text in texts):
        pages = [_part_text(part) for part in parts if part.get_content_type() == "text/html"]
        texts = [
            html.unescape(_TAG.sub(lambda tag: _tag_as_text(tag[0]), _TAG_LINE_BREAK.sub(" ", page)))
            for page in pages
        ]
    prose = _normalize_line_ends("\n".join(texts))[:_MOST_TEXT]
    prose = _MESSAGE_ID.sub("", prose)
    prose = _UNDERSCORED.sub(lambda reply: reply[0].replace("_", " "), prose)
    prose = _CODE_AT_ADDRESS.sub(r"\g<code> ", prose)
    copy = _COPY.search(prose)
    prose = prose[: copy.start()] if copy and copy.start() else prose
    return _SUBJECT.sub(r"\1", prose[: next(filter(None, _begins_of_returned(prose)), None)])


def _begins_of_returned(prose: str) -> Iterator[int]:
    """Yield where a text begins to return a message with its headers, behind whom it is about.

    A report may name the message by some of them before it says what became of it: From is not among them.
    """
    for head in _HEAD.finditer(prose):
        names = {name.casefold() for name in _HEADER_NAME.findall(head[0])}
        if names & _AUTHOR_NAMES and len(names) >= _FEWEST_HEADERS and _ADDRESS.search(prose[: head.start()]):
            yield head.start()


_AUTHOR_NAMES: Final = frozenset(_AUTHOR.split("|"))
_HEADER_BEGIN: Final = (
    rf"[> \t|]{{0,8}}({_AUTHOR}|{_ADDRESSEE}|{_TOPIC}|{_WHEN_SENT}|cc|message-id|received|reply-to"
    r"|return-path|mime-version|content-[\w-]{1,30}|x-[\w-]{1,40})[ \t]*:"
)
_HEADER_NAME = re.compile(f"^{_HEADER_BEGIN}", re.MULTILINE | re.IGNORECASE)
_HEAD = re.compile(
    rf"(?:^{_HEADER_BEGIN}.*\n(?:(?!{_HEADER_BEGIN})(?=[> ]{{0,4}}[ \t]{{1,8}}[^\s>]).*\n)*){{3,}}",
    re.MULTILINE | re.IGNORECASE,
)
_FEWEST_HEADERS: Final = 3

_CODE_AT_ADDRESS = re.compile(
    rf"(?:(?<![^\s:;'\"])(?=([45]\d\d)-[\s\S]{{0,2000}}?\s\1[ -])|(?<=<<< )|(?<=said: ))(?=[45]\d\d-)"
    rf"(?P<code>[45]\d\d)-(?={_ADDRESS.pattern})"
)
"""The code of a reply of several lines, of which one begins with an address: "550-jane@example.com"."""
_UNDERSCORED = re.compile(r"\b[245]\d\d_[\w.]+")  # "550_5.1.1_unknown_user"
_MESSAGE_ID = re.compile(r"^[> \t]*(?:\w+ )?message[- ]id\s*:.*$", re.IGNORECASE | re.MULTILINE)
_SUBJECT = re.compile(
    rf"^([> \t|]*(?:the )?(?:subject of the message is|{_TOPIC})[ \t]*:).*$", re.MULTILINE | re.IGNORECASE
)
"""What our own message was about: no reason, whatever its words."""
_TAG_LINE_BREAK = re.compile(r"(?<=>)[ \t]*\r?\n|\r?\n(?=[ \t]*<)")
"""The end of a line beside a tag: no paragraph, the tags say where one ends."""
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<!doctype[^<>]{0,500}>|<(?:style|script)\b.*?(?:</(?:style|script)>|\Z)"
    r"|</?[a-zA-Z][^<>]{0,2000}>",
    re.DOTALL,
)
"""What has no end goes to the end of the page (HTML, section 13.2.5), and nobody looks for that twice."""


def _tag_as_text(tag: str) -> str:
    return "\n" if re.match(r"</?(?:p|br|div|tr|td|li|h\d|table)\b", tag, re.IGNORECASE) else ""


def _part_text(part: Message) -> str:
    payload = part.get_payload()
    if isinstance(payload, list):
        return ""
    return _decode_text(str(payload), part)


def _decode_text(text: str, part: Message) -> str:
    encoding = str(part["Content-Transfer-Encoding"] or "").strip().lower()
    if not text.isascii() and encoding not in {"base64", "quoted-printable"}:
        return text[:_MOST_TEXT].encode("utf-8", "replace").decode()  # the parser has read its bytes
    data = text.encode("utf-8", "surrogateescape")
    try:
        if encoding == "base64":
            data = base64.b64decode(data)
        elif encoding == "quoted-printable":
            data = quopri.decodestring(data)
    except (binascii.Error, ValueError):
        pass  # sent as something else than it says: read as it is
    try:
        return data[:_MOST_TEXT].decode(str(part.get_content_charset() or "utf-8"), "replace")
    except (LookupError, ValueError):
        return data[:_MOST_TEXT].decode("utf-8", "replace")


def _returned_headers(parts: list[Message]) -> Message | None:
    """Return the headers of the message a report is about, where it brought them."""
    for part in parts:
        if part.get_content_type() in _RETURNED_TYPES:
            payload = part.get_payload()
            if isinstance(payload, list):
                return payload[0] if payload and isinstance(payload[0], Message) else None
            return HeaderParser().parsestr(_normalize_line_ends(_part_text(part)).lstrip("\n"))
    for text in map(_normalize_line_ends, map(_part_text, parts)):  # in prose, behind a line
        copy = _COPY.search(text)
        if copy:
            rest = text[copy.start() :].partition("\n")[2].strip("\n-=")
            return HeaderParser().parsestr(textwrap.dedent(rest).lstrip("\n-= \t"))
    return None


_RETURNED_TYPES = frozenset(
    {"message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers"}
)


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode_header(value: object) -> str:
    """Return a header's text; its encoded words (RFC 2047) read, or as they stand where that fails."""
    text = str(value or "")
    head = text[:_FIRST_TEXT]  # the library takes a minute for some hundred thousand
    try:
        return str(make_header(decode_header(head))) + text[_FIRST_TEXT:] if "=?" in head else text
    except (LookupError, ValueError, MessageError):
        return text


def _message_id(original: Message | None) -> str:
    return str(original["Message-ID"] or "").strip(" <>\r\n\t")[:255] if original else ""


def _parse_date(*values: object) -> float:
    """Return the first date that can be read, in epoch seconds (UTC where it names no zone); else 0."""
    return next(filter(None, (epoch(str(value or "").rpartition(";")[2]) for value in values)), 0.0)
