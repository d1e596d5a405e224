"""Tables of outcomes: what their columns hold, what their words mean, and what their rows say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Final, TypeAlias
from unicodedata import combining, normalize

import polars as pl

from mailsift.jobs.intake.table import Choice, choose_column
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import GONE
from mailsift.pipeline.outcomes.outcome import (
    ACCEPTED,
    FAILURES,
    KIND_OF_CLASS,
    NOTHING_SAID,
    WISHES,
    Outcome,
    OutcomeKind,
    ParsedOutcome,
    diagnose,
    kind_as_answered,
    suppression_cause,
)
from mailsift.pipeline.outcomes.times import day_first_in, epoch

Row: TypeAlias = Sequence[str]

OUTCOME_SAMPLE_ROWS: Final = 1_000

_STATUS: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}")
_REPLY_CODE: Final = re.compile(r"(?<![\d.])([245])(?:\d\d(?=[ \-])|\.\d{1,3}\.\d{1,3}\b(?!\.\d))")
"""In a server's words, with its first figure; in an IP address there is none."""

_OF_CHANNEL: Final = re.compile(
    r"(?:message|delivery)?(?:channel|medium)(?:type|name)?|(?:object|message)type"
)
_FROM: Final = re.compile(r"(?:sender|from|mailfrom|envelopefrom|returnpath)(?:e?mail)?(?:address)?")
"""Who writes: to us, who wants no more; else it is the sender, of whose mailbox a bounce says nothing."""
_TO: Final = re.compile(
    r"(?:(?:final|original|bounced|failed)?(?:recipients?|rcpt)(?:to)?|to|(?:mail)?destination)(?:e?mail)?(?:address(?:es)?)?"
)
_NO: Final = re.compile(
    r"0|0\.0|false|no?|f|none|null|nan|never|-|n/a|nein|non|unknown|uncategorized|undetermined", re.IGNORECASE
)
_YES: Final = re.compile(r"true|yes|y|t|x|ja|oui|s[ií]?", re.IGNORECASE)
_COUNT: Final = re.compile(r"0*[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class _Tell:
    """A column that has something to say only of what one thing happened to: a time, a reason, "yes"."""

    place: int
    kind: OutcomeKind
    textual: bool
    of_list: bool = False


@dataclass(frozen=True, slots=True)
class _Telling:
    """The columns that say what happened, by what codes, and which ones are spoken for by then."""

    kind: int | None
    codes: Mapping[str, str]
    status: int | None
    words: tuple[int, ...]
    tells: tuple[_Tell, ...]
    taken: set[int | None]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which column holds what, counted from 0; None for what a file does not say."""

    telling: _Telling
    address: int
    when: int | None
    message_id: int | None
    day_first: bool | None
    sent_is_delivered: bool
    of_bounces: bool
    usual: OutcomeKind | None
    complainer: int | None
    channels: tuple[int, ...]
    others: tuple[int, ...]
    originals: tuple[int, ...]
    of_senders: bool
    of_readers: bool
    changes: tuple[int, ...]
    degrees: tuple[int, ...]
    categories: tuple[int, ...]


def read_rows(rows: Iterator[Row], names: Row | None = None) -> Iterator[ParsedOutcome]:
    """Read a table of outcomes; without `names` its first row may say what the columns are called.

    Yields:
        An outcome for each row, None for one that tells of none.

    Raises:
        MailsiftError: see `reader_of`.
    """
    rows = _apart_by_recipient(rows) if names is None else rows
    first = list(islice(rows, OUTCOME_SAMPLE_ROWS))
    read, header = reader_of(names, first)
    return map(read, chain(first[1:] if header else first, rows))


_MOST_RECIPIENTS: Final = 1_000


def _apart_by_recipient(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield a row for each recipient in a message trace of Exchange Online: "a@b.example##Receive, Fail"."""
    names = next(rows, ())
    place = next((place for place, name in enumerate(names) if letters(name) == "recipientstatus"), None)
    if place is None:
        yield from chain([names] if names else [], rows)
        return
    yield (*names[:place], "recipient", "status", *names[place + 1 :])
    for row in rows:
        for recipient in re.split(r";(?=[^;#]*@)", cell_at(row, place))[:_MOST_RECIPIENTS]:
            address, _, steps = recipient.partition("##")
            yield (*row[:place], address, re.split(r"[;,]\s*", steps)[-1], *row[place + 1 :])


def reader_of(names: Row | None, sample: Sequence[Row]) -> tuple[Callable[[Row], ParsedOutcome], bool]:
    """Find out what the columns of a table hold; without `names` the first row may say what they are called.

    Returns:
        What reads a row, and whether the first one is none but has the names.

    Raises:
        MailsiftError: `empty_file`, `no_address_column` or `no_outcome_column`.
    """
    if not sample:
        raise MailsiftError("empty_file", "The file has no rows.")
    columns, header = _recognise(names, frame_of(sample))
    return partial(_read_row, columns), header


def frame_of(sample: Sequence[Row]) -> pl.DataFrame:
    """Return rows, of which there are some, as a frame of texts; those that are shorter end in blanks."""
    width = max(map(len, sample))
    filled = [(*row, *[""] * (width - len(row))) for row in sample]
    return pl.DataFrame(filled, schema=[f"c{place}" for place in range(width)], orient="row")


def address_column(frame: pl.DataFrame, names: Row | None, wanted: str = "") -> Choice:
    """Find the column of addresses as in a list; nobody can name another one here."""
    try:
        return choose_column(frame, names, wanted)
    except MailsiftError as error:
        if error.code != "no_address_column":
            raise
        text = "No column is named like one with addresses, and none holds enough of them."
        raise MailsiftError("no_address_column", text) from None


def cell_at(row: Row, place: int | None) -> str:
    """Return a cell; "" where a row is too short to have it."""
    return row[place].strip() if place is not None and place < len(row) else ""


_DEFUSED: Final = re.compile(r"'[=+\-]")
_BEHIND_A_NAME: Final = re.compile(r"[^<>@]*<([^<>@\s]+@[^<>@\s]+)>")
"""One address behind its owner's name (RFC 5322 section 3.4)."""


def address_at(row: Row, place: int) -> str:
    """Return an address without what stands around: a name, brackets, and an apostrophe before a formula."""
    cell = cell_at(row, place)
    if cell[:1] == "[" and cell[-1:] == "]":
        cell = cell[1:-1].strip("'\" ")
    if named := _BEHIND_A_NAME.fullmatch(cell):
        return named[1]
    return cell[1:] if _DEFUSED.match(cell) else cell


def share(column: Iterable[str], holds: Callable[[str], object]) -> float:
    """Return the part of the filled cells of which something holds."""
    filled = [cell for cell in column if cell and cell.strip()]
    return sum(map(bool, map(holds, filled))) / len(filled) if filled else 0.0


def is_reply(cell: str) -> bool:
    """Say whether a cell has a mail server's words, with a code in them."""
    return bool(_REPLY_CODE.search(cell))


def subscribed_in(cells: Sequence[Sequence[str]], names: Sequence[str]) -> Callable[[Row], bool]:
    """Return what says of a row of an export of everybody that its reader is written to.

    That it is one a column shows that tells those from others: "subscribed" from "unsubscribed", or no from
    yes where it is called "Unsubscribed". A list of others alone may call its entries "active" as well.
    """
    standings = [
        place
        for place, column in enumerate(cells)
        if any(map(_is_subscribed, column)) and any(map(is_kind, column)) and share(column, _is_state) >= 0.9
    ]
    flags = {
        place: kind[0]
        for place, name in enumerate(names)
        if (kind := kind_in_name(name))
        and not kind[1]
        and {_flag(cell) for cell in cells[place]} == {True, False}
    }
    if OutcomeKind.UNSUBSCRIBED not in flags.values():
        flags = {}

    def is_written_to(row: Row) -> bool:
        words = [cell_at(row, place) for place in standings]
        unset = all(_flag(cell_at(row, place)) is False for place in flags)
        return (any(map(_is_subscribed, words)) or bool(flags)) and not any(map(is_kind, words)) and unset

    return is_written_to


def _flag(cell: str) -> bool | None:
    """Return what a cell says with yes or no, or a number; None for another one."""
    word = cell.strip()
    return False if _NO.fullmatch(word) else True if _YES.fullmatch(word) or _COUNT.fullmatch(word) else None


def _recognise(names: Row | None, frame: pl.DataFrame) -> tuple[_Columns, bool]:
    """Find out which column holds what, by name and else by its cells; and whether there is a header."""
    called = [_called(name) for name in names] if names is not None else None
    choice = address_column(frame, called, _recipients(called or frame.row(0), frame))
    full = list(names) if names is not None else list(choice.names)
    cells = [list(column) for column in (frame.slice(1) if choice.header else frame)]
    forecasts = [place for place, column in enumerate(cells) if _is_forecast(full[place], column)]
    is_judged = bool(forecasts) or any(map(_is_trait, map(_last, full)))
    for place in forecasts:
        full[place], cells[place] = "", [""] * len(cells[place])
    table = _Table(full, cells)
    return _columns_of(table, choice.index, _telling(table, choice.index, is_judged=is_judged)), choice.header


def _telling(table: _Table, address: int, *, is_judged: bool) -> _Telling:
    """Find the columns that say what happened, in a table that may be a verifier's."""
    coded, codes = _coded_column(table)
    kind = _kind_column(table, is_judged=is_judged) if coded is None else coded
    with_codes = (
        place for place, column in enumerate(table.cells) if share(column, _STATUS.fullmatch) >= 0.8
    )
    status = next(chain(table.named("status"), with_codes), None)
    taken = {address, kind, status}
    words = _words_columns(table, taken, kind)
    is_of_mail = coded is not None or kind is None or _is_of_mail(table, kind, words)
    if not is_of_mail:
        kind = None
    tells = _tells(table, taken)
    if is_judged:
        tells = tuple(tell for tell in tells if not _is_of_verdicts(table.names[tell.place]))
    if kind is None and not tells and (is_judged or not words or not is_of_mail):
        text = "No column says what happened: delivered, bounced, deferred, complained or unsubscribed."
        verdicts = " Verdicts, and the replies they rest on, are forecasts." if is_judged else ""
        raise MailsiftError("no_outcome_column", f"{text}{verdicts}")
    return _Telling(kind, codes, status, words, tells, taken)


_COMPLAINER: Final = re.compile(r"original(?:recipients?|rcpt)(?:to)?(?:address)?")
"""Who a complaint is by, where it came in as a message to somebody of ours."""
_OF_ORIGINAL: Final = re.compile(r"original[a-z_]*\.", re.IGNORECASE)
"""An object with the message that a bounce is about, beside the one with the bounce itself: Postal's."""
_ANOTHER_ADDRESS: Final = re.compile(r"e?mail(?:address)?")


def _columns_of(table: _Table, address: int, found: _Telling) -> _Columns:
    """Return what each column holds, where it is known which ones say what happened to whom."""
    kind, tells, taken = found.kind, found.tells, found.taken
    called = list(map(letters, map(_called, table.names)))
    states = table.cells[kind] if kind is not None else []
    of_readers = any(map(is_of_people, states))
    of_people = of_readers or (kind is None and bool(tells) and not found.words)
    times = _times(table, taken, of_people=of_people, of_entries=bool(found.codes))
    telling_places = {tell.place for tell in tells}
    has_ids = not of_readers and found.codes is not _NUMBERS
    recipients = _matching(called, _TO, _ANOTHER_ADDRESS)
    originals = _matching(table.letters_last, _TO)
    return _Columns(
        telling=found,
        address=address,
        when=next((place for place in times if place not in telling_places), next(iter(times), None)),
        message_id=_message_id_column(table, address, taken) if has_ids else None,
        day_first=day_first_in(cell for place in times for cell in table.cells[place]),
        sent_is_delivered=_says_sent_for_delivered(states),
        of_bounces=kind is not None and _is_of_bounces(table.names[kind]),
        usual=None if kind is not None or tells else _usual(table.cells, found.words, found.status),
        complainer=next(iter(_matching(called, _COMPLAINER)), None),
        channels=_matching(called, _OF_CHANNEL),
        others=tuple(place for place in recipients if place != address),
        originals=tuple(place for place in originals if _OF_ORIGINAL.search(table.names[place])),
        of_senders=bool(_FROM.fullmatch(called[address])),
        of_readers=of_readers,
        changes=_changed_to(table),
        degrees=_degrees(table.cells, taken),
        categories=tuple(telling_places if kind is None else {kind} | telling_places),
    )


def _is_of_bounces(name: str) -> bool:
    """Say whether a column of this name says why messages came back, and not why nothing is sent any more."""
    return kind_in_name(name) == (OutcomeKind.BOUNCED, True) and not _OF_A_LIST.search(name)


_NAMES: Final = {
    "kind": "event outcome kind status type eventtype eventname result action bouncetype state what"
    " lastevent activitytype metric",
    "when": "timestamp time when date happenedat occurredat createdat eventtime sentat bouncedat"
    " deliveredat datetime at ts created",
    "words": "diagnostic diagnosticcode reason response smtpresponse message description error details"
    " bouncereason rawreason errormessage smtpreply bouncedescription responsecontent detail comment"
    " dropreason failurereason failuremessage"
    " grund ursache begrundung fehler fehlermeldung fehlergrund serverantwort antwort"
    " rueckmeldung ruckmeldung beschreibung motif raison cause erreur messagederreur reponse reponseduserveur"
    " reponseserveur motivo razon causa mensajedeerror respuesta respuestadelservidor descripcion detalle"
    " razao erro mensagemdeerro resposta descricao detalhe"
    " ragione errore messaggiodierrore risposta descrizione dettaglio dettagli"
    " reden oorzaak fout foutmelding omschrijving powod przyczyna opis",
    "status": "enhancedcode statuscode enhancedstatus dsn enhanced code bouncecode errorcode smtpcode",
    "message_id": "messageid smtpid id mailid sgmessageid providermessageid msgid emailid mid queueid"
    " deliveryid",
}
"""By what names columns are known, the first that a file has wins."""
_LONG_NAME: Final = 8
"""Letters of a name that says as much at the end of a longer one: "mailMessageId"."""


class _Table:
    """What the columns of a table are called, as paths and in the object they stand in, and some cells."""

    def __init__(self, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        self.names, self.cells = names, cells
        self.last = list(map(_last, names))
        self.letters, self.letters_last = list(map(letters, names)), list(map(letters, self.last))

    def named(self, role: str) -> list[int]:
        """Return the columns of known names, best first; outer fields before those of objects in them."""
        found: dict[int, None] = {}
        for word in _NAMES[role].split():
            exact = [place for place, name in enumerate(self.letters) if name == word]
            inner = [place for place, name in enumerate(self.letters_last) if name == word]
            ends = [
                place
                for place, name in enumerate(self.letters)
                if len(word) >= _LONG_NAME and name.endswith(word)
            ]
            found |= dict.fromkeys(exact or inner or ends)
        return list(found)


_IS_A_READER: Final = re.compile(r"profile|contact|subscriber|member|person|lead|user", re.IGNORECASE)
"""What a record calls itself whose id is the same for everything that happens to a reader."""


def _message_id_column(table: _Table, address: int, taken: set[int | None]) -> int | None:
    """Return the column that says which message it was; a reader's id, always the same, says none."""
    addresses = table.cells[address]
    sorts = (table.cells[place] for place in _matching(table.letters, _SORT))
    if any(share(column, _IS_A_READER.fullmatch) == 1 for column in sorts):
        return None
    for place in table.named("message_id"):
        named = set(zip(addresses, table.cells[place], strict=True))
        again = len(named) < len(addresses) and len(named) == len(set(addresses))
        of_readers = (again and table.letters_last[place] == "id") or all(_is_digest(*one) for one in named)
        if place not in taken and not of_readers:
            return place
    return None


_SORT: Final = re.compile(r"type|object")


def _is_digest(address: str, cell: str) -> bool:
    """Say whether a cell is Mailchimp's id of an address ("The subscriber hash")."""
    return hashlib.md5(address.lower().encode(), usedforsecurity=False).hexdigest() == cell


def _coded_column(table: _Table) -> tuple[int | None, Mapping[str, str]]:
    """Return the column that says by codes what happened, and what they mean; None and no codes, else."""
    for beside, called, telling, others, codes in _CODED:
        if not any(map(beside.fullmatch, table.letters_last)):
            continue
        for place, name in enumerate(table.letters_last):
            found = {cell.strip() for cell in table.cells[place]} - {""}
            if name == called and found & telling and found <= telling | others:
                return place, codes
    return None, {}


def _matching(names: Iterable[str], *patterns: re.Pattern[str]) -> tuple[int, ...]:
    """Return the columns whose whole name one of the patterns matches."""
    return tuple(
        place for place, name in enumerate(names) if any(pattern.fullmatch(name) for pattern in patterns)
    )


def _changed_to(table: _Table) -> tuple[int, ...]:
    """Return the columns that say what a reader's standing is from now on."""
    return _matching(table.letters, _NEW_STANDING)


def _degrees(cells: Sequence[Sequence[str]], taken: set[int | None]) -> tuple[int, ...]:
    """Return the columns that say nothing but whether a failure is one for good: "permanent", "soft"."""
    return tuple(
        place
        for place, column in enumerate(cells)
        if place not in taken and {kind_of(cell) for cell in column if cell.strip()} in _BY_DEGREE
    )


_BY_DEGREE: Final = ({OutcomeKind.DEFERRED}, FAILURES)
_NEW_STANDING: Final = re.compile(r"[a-z]*subscriptions?status|newstatus")


def _usual(cells: Sequence[Sequence[str]], words: Sequence[int], status: int | None) -> OutcomeKind | None:
    """Return what every row of a report of bounces is: most name a refusal for good, and no column says."""
    coded = cells[status] if status is not None else [""] * len(cells[0])
    kinds = [
        _kind_by(" ".join(row), code)
        for code, *row in zip(coded, *(cells[place] for place in words), strict=True)
    ]
    named = sum(kind is not None for kind in kinds)
    return OutcomeKind.BOUNCED if named and kinds.count(OutcomeKind.BOUNCED) * 2 >= named else None


def _last(name: str) -> str:
    """Return what a field is called in the object it stands in."""
    return name.rpartition(".")[2]


def _called(name: str) -> str:
    """Return what a field is called, and that it is the sender's where an object of that name holds it."""
    owners = name.split(".")[:-1]
    return f"sender {_last(name)}" if any(_FROM.fullmatch(letters(one)) for one in owners) else _last(name)


def _recipients(names: Sequence[str], frame: pl.DataFrame) -> str:
    """Return the name of the column that says to whom, where another one may say from whom.

    One that has few of the addresses is of some event alone: to whom at the sender a complaint was sent.
    """
    plain = list(map(letters, names))
    filled = [
        0 if _FROM.fullmatch(name) else sum("@" in cell for cell in frame.to_series(place))
        for place, name in enumerate(plain)
    ]
    most = max(1, *filled)
    found = (place for place, name in enumerate(plain) if _TO.fullmatch(name) and filled[place] * 2 >= most)
    return next((names[place] for place in found), "")


_SAYS_WHAT: Final = re.compile(r"event|activity|metric", re.IGNORECASE)
"""Columns that say what happened, even where most of it is nothing of ours; a "status" may be of a sale."""
_IS_NO_KIND: Final = re.compile(
    r"note|tag|subject|title|name$|campaign|list$|segment|template"
    r"|(?:\b|_)(?:order|shipment|parcel|payment|invoice|booking|ticket|deal)s?(?:\b|_)",
    re.IGNORECASE,
)
_EVENT_NAME: Final = re.compile(r"(?:event|activity|metric)[ _.-]?(?:type[ _.-]?)?name$", re.IGNORECASE)


def _kind_column(table: _Table, *, is_judged: bool) -> int | None:
    """Return the column that says what happened: one of such a name, or one that is full of such words.

    In a verifier's table, others may say why in words that senders have.
    """
    named = set(table.named("kind"))
    standings = bool(_changed_to(table))
    counted, of_messages = dict[int, int](), dict[int, int]()
    for place, column in enumerate(table.cells):
        if is_judged and not _tells_of_messages(column):
            continue
        full = table.names[place]
        filled = [cell for cell in column if cell.strip()]
        changes = sum(map(_is_change, filled)) if standings else 0
        known = sum(map(is_kind, filled)) + changes
        sure = place in named and bool(_SAYS_WHAT.search(full))
        of_another = _IS_NO_KIND.search(full) and not _EVENT_NAME.search(full)
        states = sum(map(_is_state, filled)) + changes
        believed = sure or (states * 2 >= len(filled) and not of_another)
        of_some = place not in named or kind_in_name(full)
        if any(map(_is_affair, filled)):
            continue
        if known and believed and not (of_some and len(filled) * 2 <= len(column)):
            counted[place], of_messages[place] = known, states - sum(map(is_of_people, filled))
    most = max(of_messages.values(), default=0)
    return max(  # an event has its name outside, and inside what has become of the message until now
        (place for place in counted if of_messages[place] * 2 >= most),
        key=lambda place: (-table.names[place].count("."), counted[place], place in named),
        default=None,
    )


_OF_THE_MESSAGE: Final = re.compile(r"subject|title|campaign|template", re.IGNORECASE)
"""Columns of words that a customer of ours has written, which may look like a server's: "500 points"."""


def _words_columns(table: _Table, taken: set[int | None], kind: int | None) -> tuple[int, ...]:
    """Return the columns that say why: those of such a name, then what looks like a server's answers.

    Of many rows few may be of what did not arrive, as the column `kind` says.
    """
    kinds = table.cells[kind] if kind is not None else []
    failed = [row for row, cell in enumerate(kinds) if kind_of(cell) in FAILURES]
    replies = (
        place
        for place, column in enumerate(table.cells)
        if not _OF_THE_MESSAGE.search(table.last[place])
        and max(share(column, is_reply), share((column[row] for row in failed), is_reply)) >= 0.3
    )
    found = dict.fromkeys(chain(table.named("words"), replies))
    return tuple(place for place in found if place not in taken)


def _is_of_mail(table: _Table, kind: int, words: Sequence[int]) -> bool:
    """Say whether what happened did to messages, and not to a sign-in or a payment, which fail as well."""
    kind_words = [cell for cell in table.cells[kind] if is_kind(cell)]
    return (
        not (kind_words and all(map(_is_of_anything, kind_words)))
        or any(map(_is_about_mail, table.names))
        or any(is_reply(cell) or _MAILBOX.search(cell) for place in words for cell in table.cells[place])
    )


_MAILBOX: Final = re.compile(
    r"mailbox|inbox|postfach|bo[iî]te|buz[oó]n|casella|caixa|postvak|skrzynk|メールボックス", re.IGNORECASE
)


def _tells(table: _Table, taken: set[int | None]) -> tuple[_Tell, ...]:
    found = (
        kind_in_name(name) or kind_in_name(last) for name, last in zip(table.names, table.last, strict=True)
    )
    return tuple(
        _Tell(place, *kind, of_list=bool(_OF_A_LIST.search(table.names[place])))
        for place, kind in enumerate(found)
        if kind and place not in taken
    )


_OF_A_LIST: Final = re.compile(r"(?:black|block)[ _-]?list|suppress", re.IGNORECASE)
"""Names of columns that say why nothing is sent any more, which need be no bounce."""


_LOOKED_AT: Final = 50
"""Rows in which times are looked for, which takes longer than to look for words."""
_SAYS_WHEN: Final = re.compile(
    r"date|time|(?:at|on|ts|when|since|moment)$|zeit|datum|fecha|data|heure|quand|event", re.IGNORECASE
)
_IS_NO_TIME: Final = re.compile(
    r"opt-?in|_opt$|confirm|sign.?(?:ed.?)?up|(?<!un)subscribed|join|birth|dob|regist|import|queued|expire|next|added"
    r"|(?:\b|_|[a-z])I[Dd]$|^id$|code|size|phone|mobile|zip|score|count|rating|duration|attempt|member",
    re.IGNORECASE,
)
"""Names of times at which something else happened, and of numbers that look like times."""
_OF_SENDING: Final = re.compile(r"sen[dt]|launch|schedul", re.IGNORECASE)
"""When a message went out, which is before anything happened to it."""
_OF_THE_ROW: Final = re.compile(r"creat", re.IGNORECASE)
"""When a row came to be: of one that stands for a reader, not for a message, that tells nothing."""
_OF_ENTRY: Final = re.compile(r"added", re.IGNORECASE)
"""When a reader came to a list, or an entry to the list of those not to be written to."""


def _times(table: _Table, taken: set[int | None], *, of_people: bool, of_entries: bool) -> list[int]:
    """Return the columns of times, first those whose names say so."""
    named = {place: rank for rank, place in enumerate(table.named("when"))}
    found = [
        place
        for place, (name, column) in enumerate(zip(table.names, table.cells, strict=True))
        if place not in taken
        and not (_IS_NO_TIME.search(table.last[place]) and not (of_entries and _OF_ENTRY.search(name)))
        and not (of_people and _OF_THE_ROW.search(name))
        and share(column[:_LOOKED_AT], epoch) >= 0.8
        and share(column[:_LOOKED_AT], _STATUS.fullmatch) < 0.5
    ]
    return sorted(
        found,
        key=lambda place: (
            named.get(place, len(table.names)),
            not _SAYS_WHEN.search(table.letters[place]),
            bool(_OF_SENDING.search(table.names[place])),
            place,
        ),
    )


def _says_sent_for_delivered(column: Iterable[str]) -> bool:
    """Say whether "sent" is what becomes of a message here: others bounced, and no word for delivered."""
    kinds = {kind_of(cell) for cell in column if cell}
    return OutcomeKind.BOUNCED in kinds and OutcomeKind.DELIVERED not in kinds


def _read_row(columns: _Columns, row: Row) -> ParsedOutcome:
    found = columns.telling
    cells = (cell_at(row, place) for place in found.words)
    texts = [cell for cell in cells if re.search(r"[^\W\d]", cell)]
    sentences = filter(is_reply, texts), (cell for cell in texts if " " in cell), texts
    words = next(chain.from_iterable(sentences), "")
    status, word = cell_at(row, found.status), cell_at(row, found.kind)
    signs = list(_signs(row, columns))
    word = found.codes.get(word, word)
    kind = _kind_of_row(row, word, signs, columns, words, status)
    address = _address_in(row, columns, kind)
    elsewhere = any(_is_of_another_channel(cell_at(row, place)) for place in columns.channels)
    answered = any(_is_answer(cell_at(row, place)) for place in columns.categories)
    if (
        kind is None
        or elsewhere
        or answered
        or "@" not in address
        or (columns.of_senders and kind not in WISHES)
    ):
        return None
    own = [sign for sign in signs if sign.kind is kind]
    words = words or next((sign.words for sign in own if " " in sign.words), "")  # one word is a category
    at = max((sign.at for sign in own), default=0.0)
    at = at or epoch(cell_at(row, columns.when), day_first=columns.day_first)
    reason = words or next((sign.words for sign in signs if sign.words), "")
    earlier = kind_of(reason) if _REJECTED.fullmatch(word) and _CATEGORY.fullmatch(reason) else None
    unsent = _is_dropped(word) or earlier or (not reason and word.lower() == "reject")
    if unsent and not is_reply(words):  # a server that answered was asked
        words = f"dropped: {words}"
    if kind is OutcomeKind.BOUNCED:
        causes = map(suppression_cause, (words, *texts[:_MOST_REASONS]))
        kind = earlier if earlier in WISHES else next(filter(None, causes), kind)
    failed = kind in FAILURES
    permanent = kind is OutcomeKind.BOUNCED
    beside = " ".join(cell for cell in texts if cell != words)
    diagnosis = diagnose(words, status=status, permanent=permanent, beside=beside) if failed else ACCEPTED
    if diagnosis.answer in GONE and not status and _CATEGORY.fullmatch(words):
        diagnosis = NOTHING_SAID
    unasked = _BY_A_LIST.fullmatch(word) and not is_reply(words) and not diagnosis.was_never_sent
    if failed and (unasked or (not kind_of(word) and _may_have_arrived_since(signs))):
        diagnosis = NOTHING_SAID
    kind = kind_as_answered(kind, diagnosis)
    return Outcome(address, kind, at, diagnosis, "file", cell_at(row, columns.message_id)[:255])


_MOST_REASONS: Final = 10
"""Columns of words in which an earlier wish is looked for: a hostile table has hundreds."""
_CATEGORY: Final = re.compile(r"[\w-]+", re.ASCII)
"""A sender's own word for a failure ("UNKNOWN_USER"), which is not the server's."""
_REJECTED: Final = re.compile(r"reject(?:ed)?", re.IGNORECASE)
"""Mandrill's words for what it would not send, where the reason is what became of an earlier message."""
_BY_A_LIST: Final = re.compile(r"(?:pre-?)?blocked", re.IGNORECASE)
"""Of a message that a server refused, or a list of the sender's: without an answer nobody knows."""
_LETTERS: Final = {"d": "delivered", "b": "bounced", "rb": "bounced", "t": "deferred", "f": "complaint"}
"""What records of an accounting file are called: delivery, bounce (here, elsewhere), attempt, feedback."""
_NUMBERS: Final = {"1": "unsubscribed", "2": "bounced"}
"""Mautic's reasons; by 0 somebody can be written to, by 3 it was decided by hand."""
_CODED: Final = (
    (
        re.compile(r"(?:dsn|timelogged|feedbacktype).*|bouncecat"),
        "type",
        {*_LETTERS},
        {"r", "rs", "rr", "tq", "p"},
        _LETTERS,
    ),
    (_OF_CHANNEL, "reason", {"0", "1", "2", "3"}, set[str](), _NUMBERS),
)
"""What a column beside it is called, what it is, codes of which it has one, others it may have, meanings."""


def _address_in(row: Row, columns: _Columns, kind: OutcomeKind | None) -> str:
    """Return whom a row is about: who complained, and not who was told of it.

    A wish is heard even where the column of recipients is empty and another one has the address; what came
    back later is about the recipient of the original message.
    """
    by_others = kind is OutcomeKind.COMPLAINED and columns.complainer is not None
    places = (columns.complainer or 0, columns.address) if by_others else (columns.address,)
    others = columns.others if kind in WISHES else columns.originals
    found = (address_at(row, place) for place in (*places, *others))
    return next((address for address in found if "@" in address), "")


@dataclass(frozen=True, slots=True)
class _Sign:
    """What a cell of a column that tells says of its row: what happened, when if it says so, or its words."""

    kind: OutcomeKind
    at: float = 0.0
    words: str = ""


def _signs(row: Row, columns: _Columns) -> Iterator[_Sign]:
    for tell in columns.telling.tells:
        cell = cell_at(row, tell.place)
        if not cell or _NO.fullmatch(cell):
            continue
        if at := epoch(cell, day_first=columns.day_first):
            yield _Sign(tell.kind, at)
        elif tell.textual:
            kind = kind_of(cell)
            of_bounces = tell.kind is OutcomeKind.BOUNCED and not tell.of_list
            is_why = of_bounces and _is_why_it_bounced(kind, cell)
            yield _Sign(tell.kind if is_why else kind or tell.kind, words=cell)
        elif _YES.fullmatch(cell) or _COUNT.fullmatch(cell):
            yield _Sign(tell.kind)


def _may_have_arrived_since(signs: Sequence[_Sign]) -> bool:
    """Say whether a message arrived, too, and nobody knows whether that was before one came back."""
    arrived = any(sign.kind is OutcomeKind.DELIVERED for sign in signs)
    return arrived and not any(sign.at for sign in signs if sign.kind is OutcomeKind.BOUNCED)


def _standing(row: Row, signs: Sequence[_Sign], columns: _Columns) -> OutcomeKind | None:
    """Return what somebody's standing has changed to; a sender that gives up after a bounce is no reader."""
    if any(sign.kind is OutcomeKind.BOUNCED for sign in signs):
        return OutcomeKind.BOUNCED
    return next(filter(None, (kind_of(cell_at(row, place)) for place in columns.changes)), None)


_CANCELLED: Final = re.compile(r"cancell?ed", re.IGNORECASE)
"""What Kit calls a reader who unsubscribed."""


def _kind_of_row(
    row: Row, word: str, signs: Sequence[_Sign], columns: _Columns, words: str, status: str
) -> OutcomeKind | None:
    found = _standing(row, signs, columns) if _is_change(word) else kind_of(word)
    if columns.of_bounces and _is_why_it_bounced(found, word):
        return OutcomeKind.BOUNCED
    if found is None and columns.of_readers and _CANCELLED.fullmatch(word):
        found = OutcomeKind.UNSUBSCRIBED
    degrees = (kind_of(cell_at(row, place)) for place in columns.degrees)
    if found is OutcomeKind.BOUNCED and OutcomeKind.DEFERRED in degrees:
        found = OutcomeKind.DEFERRED
    if found:
        return _written_off(signs, words) if found is OutcomeKind.UNSUBSCRIBED else found
    kind_by_words = _kind_by(words, status)
    if _is_handed_over(word) and (columns.sent_is_delivered or kind_by_words is OutcomeKind.DELIVERED):
        return OutcomeKind.DELIVERED
    if signs:
        arrived = {sign.kind for sign in signs} == {OutcomeKind.DELIVERED}
        return kind_by_words if kind_by_words and arrived else _weighed(signs)
    if columns.telling.kind is not None:  # a word we do not know, beside a refusal, or what waits after one
        waits = kind_by_words is OutcomeKind.DEFERRED and not is_of_people(word)
        return kind_by_words if waits or (kind_by_words in FAILURES and not _is_state(word)) else None
    return kind_by_words or (columns.usual if words or status else None)


def _written_off(signs: Sequence[_Sign], words: str) -> OutcomeKind:
    """Return why somebody is unsubscribed: after a bounce it is the sender's doing and shows no mailbox."""
    whys = [kind_of(words), *(sign.kind for sign in signs if sign.words)]
    known = (kind for kind in (OutcomeKind.COMPLAINED, OutcomeKind.BOUNCED) if kind in whys)
    return next(known, OutcomeKind.UNSUBSCRIBED)


def _is_why_it_bounced(kind: OutcomeKind | None, cell: str) -> bool:
    """Say whether a word for a complaint is a reason here: of a bounce "spam" is why."""
    return kind is OutcomeKind.COMPLAINED and "compl" not in cell.lower()


_SEVERITY: Final = (
    OutcomeKind.COMPLAINED,
    OutcomeKind.UNSUBSCRIBED,
    OutcomeKind.BOUNCED,
    OutcomeKind.DELIVERED,
    OutcomeKind.DEFERRED,
)
"""Which of several things that happened to a message counts."""


def _weighed(signs: Sequence[_Sign]) -> OutcomeKind:
    """Return which of several things that happened counts: a wish, then the later of arrival and bounce."""
    latest: dict[OutcomeKind, float] = {}
    for sign in signs:
        latest[sign.kind] = max(sign.at, latest.get(sign.kind, 0.0))
    kind = next(kind for kind in _SEVERITY if kind in latest)
    arrived = latest.get(OutcomeKind.DELIVERED, 0.0)
    return OutcomeKind.DELIVERED if kind is OutcomeKind.BOUNCED and arrived > latest[kind] > 0 else kind


def _kind_by(words: str, status: str) -> OutcomeKind | None:
    """Return what a server's words tell where no column says what happened."""
    found = _REPLY_CODE.search(f"{status} {words}")
    return KIND_OF_CLASS[found[1]] if found else None


# The words by which senders call what happened, in a cell and in the name of a column.

_KINDS: Final = {
    OutcomeKind.DELIVERED: "delivered delivery delivers deliver ok success successful"
    " opened open opens firstopening opening openings clicked click clicks clickthrough read replied viewed"
    " zugestellt geoffnet angeklickt geklickt livre remis delivre ouvert clique entregado abierto entregue"
    " aberto clicado consegnato recapitato aperto cliccato bezorgd afgeleverd geopend geklikt dostarczono"
    " ausgeliefert offnung offnungen klick klicks distribue ouverte ouverture ouvertures clic clics"
    " entregada abierta apertura aperturas aberta abertura aberturas cliques consegnata recapitata aperta"
    " aperture aangeklikt klik kliks dostarczona dostarczony otwarto otwarta otwarcie otwarcia kliknieto"
    " kliknieta klikniecie klikniecia",
    OutcomeKind.BOUNCED: "bounced bounce bounces hardbounce hardbounced hardbounces hard permanent"
    " permanentbounce"
    " failed failure fail dropped drop blocked block rejected reject invalid invalidemail undelivered"
    " undeliverable outofband permfail hardfail nonexistent expired expiration returned nondelivery ndr"
    " cleaned bounceback suppressed error errored giveup gaveup"
    " unzustellbar rucklaufer abgewiesen abgelehnt fehlgeschlagen rejete refuse echec echoue rebond rebonds"
    " rebote rebotado rechazado gebounced gebounct"
    " fallido devolvido rejeitado respinto rimbalzato fallito geweigerd mislukt odrzucono"
    " zuruckgewiesen rebondi devuelto devolucion devolucao rejeicao rimbalzo rimbalzi onbestelbaar"
    " teruggestuurd odrzucona odbicie odbicia odbito odbito zwrot zwrocono niedostarczono fallita npai"
    " definitif definitivo definitiva definitief endgultig dauerhaft duro hart harderror",
    OutcomeKind.DEFERRED: "deferred defer delay delayed deliverydelay softbounce softbounced softbounces soft"
    " deferral temporary transient temporaryfailure temporaryfail tempfail tranfail softfail retrying retry"
    " greylisted failedattempt verzogert differe retarde aplazado diferido adiado differito uitgesteld"
    " aufgeschoben retrasado atrasado ritardato rinviato vertraagd odroczono opozniono temporaire temporaneo"
    " temporanea temporario tijdelijk vorubergehend blando suave weich"
    " softerror",
    OutcomeKind.COMPLAINED: "complained complaint complaints spam spamreport spamreports spamcomplaint abuse"
    " abusereport abusereports reportedspam feedback junk spammed scomp fbl beschwerde plainte"
    " queja reclamacao reclamo klacht"
    " spambeschwerde spammeldung spamklacht spammelding plaintes quejas denuncia queixa skarga skargi",
    OutcomeKind.UNSUBSCRIBED: "unsubscribed unsubscribe unsubscribes unsub optout optedout groupunsubscribe"
    " listunsubscribe linkunsubscribe unsubscribing unsubscription"
    " abgemeldet abbestellt desabonne desinscrit descadastrado disiscritto uitgeschreven afgemeld"
    " abmeldung abbestellung desinscription desabonnement baja descadastro disiscrizione uitschrijving"
    " afmelding ausgetragen desuscrito desuscripto desuscripcion desinscrito wypisano"
    " wypisana wypisany wypisanie wypisania",
}
"""What senders call a kind, in the letters of the word alone."""

_KIND_OF: Final = {word: kind for kind, words in _KINDS.items() for word in words.split()}


def _row(kind: OutcomeKind | None, pattern: str) -> tuple[re.Pattern[str], OutcomeKind | None]:
    return re.compile(pattern), kind


_NOT: Final = r"not|non?|nicht|niet|nao|ne|pas|nie|ikke|inte"
_ARRIV: Final = (
    r"(?:deliver|zugestellt|livre|remis|delivre|distribue|entreg|consegn|recapit|bezorgd|afgeleverd|dostarcz)"
)
_PHRASES: Final = (
    _row(
        OutcomeKind.UNSUBSCRIBED,
        r"\bno longer (?:wants?|subscri\w+)\b"
        r"|\b(?:cancel|annul|rezygnacj)\w+ (?:\w{1,3} )?(?:inscri|subscri|suscri|iscri|subskry)\w+",
    ),
    _row(
        OutcomeKind.DEFERRED,
        rf"\b(?:not yet|noch nicht|nog niet|pas encore|todavia no|aun no|non ancora|ainda nao|annu inte"
        rf"|endnu ikke|jeszcze nie)\b.*\b{_ARRIV}",
    ),
    _row(
        OutcomeKind.BOUNCED,
        rf"\b(?:{_NOT}|never|nie(?:mals)?|jamais|nunca|mai|nooit|(?:could|was|were|did) ?n.?t"
        r"|can(?: ?no|.)?t|unable to|fail(?:ed|s) to)(?:[ -](?:be|been|ete|fue|foi|stato))?"
        rf"[ -](?:{_ARRIV}|success|ok\b)|\bunsuccess",
    ),
    _row(
        None,
        r"\b(?:(?:queued|scheduled|ready|waiting|pending|submitted|sent|out) (?:for|to be)|to be|being"
        rf"|awaiting|pending|in|partly|partial\w*|teilweise|partiell\w*) {_ARRIV}",
    ),
    _row(
        None,
        rf"\b(?:{_NOT}|never|jamais|nunca|mai|nooit) (?:yet )?(?:\w+ )?(?:open|clicked|read\b|viewed"
        r"|geoffnet|geklickt|angeklickt|ouvert|clique|abiert|abert|clicad|apert|cliccat|geopend|geklikt"
        r"|bounc|(?:un-?)?subscri|opt(?:ed)?[ -]?out|complain)",
    ),
    _row(None, r"\b(?:re-?subscri\w+|not[ -]spam|non[ -]?spam|(?:filter|quarantin)\w+)\b"),
    _row(
        OutcomeKind.BOUNCED,
        r"\bspam (?:notific|block|bounc|reject|content|relat)\w*|\b(?:block|reject)\w* .*\bspam\b",
    ),
    _row(OutcomeKind.COMPLAINED, r"\b(?:spamu?|abuse|complain\w*|junk)\b"),
    _row(OutcomeKind.UNSUBSCRIBED, r"\b(?:un-? ?subscri\w+|opt(?:ed)?[ -]?out)\b"),
    _row(
        OutcomeKind.DEFERRED,
        r"\b(?:soft|suave|blando|brando|leve|morbido|weicher?|zachte?|miekk\w{1,4}|deferred|delayed"
        r"|temporar\w+|temporal|temporaire|temporane\w+|transient|transitori\w+|vorubergehend\w{0,2}"
        r"|tijdelijke?|tymczasow\w+|przejsciow\w+)\b",
    ),
    _row(
        OutcomeKind.BOUNCED,
        r"\b(?:permanente?|(?:hard|block)?[ -]?bounce[ds]?|rebotes?|rebonds?|rimbalz\w+"
        r"|odbi(?:ci|t)\w+|un-?deliver\w+|deliver\w+ fail\w+)\b",
    ),
    _row(
        OutcomeKind.DELIVERED,
        r"\b(?:delivered|opened|clicked|received (?:an? |the |your )?e-?mail|loaded by proxy)\b",
    ),
)
"""What a phrase of a few words means ("Unsubscribed by user"), the first row that is in it."""

_NO_MAILBOX: Final = re.compile(
    r"\b(?:mailbox|user|recipient|address|account) (?:not found|unknown|does not exist)"
    r"|\b(?:unknown|no such|bad|invalid) (?:mailbox|user|recipient|address|account)\b"
)
"""In an event's own name ("email_mailbox_not_found"); in a sentence it is why, and not what happened."""

_ATTEMPTED: Final = frozenset({"delivery", "deliver", "delivers", "ok", "success", "successful"})
_SAYS_NO_MORE: Final = re.compile(
    r"e?mails?|messages?|confirm\w*|complet\w*|done|smtp|remote|local|final|event|was|is|has|been"
)
"""Words for an arrival, or for a try at it ("delivery problem"), and those that leave them what they are."""

_LONGEST_PHRASE: Final = 6
_LONGEST_WORDS: Final = 100
_LONGEST_NAME: Final = 3
"""Words of a phrase in which one known word is enough."""


_STATES: Final = {
    "on its way": "sent send sends messagesent emailsend emailsent sendemail"
    " processed process accepted injection"
    " injected queued queue pending scheduled submission submitted reception requests request draft none"
    " unknown versendet gesendet envoye enviado inviato verzonden",
    "of people": "active inactive enabled disabled subscribed subscribe confirmed unconfirmed registered"
    " cold aktiv inaktiv actif inactif activo inactivo ativo inativo attivo inattivo actief inactief aktywny"
    " nieaktywny",
}
"""Words of a column that says what happened, where nothing has."""
_STATE_OF: Final = {word: state for state, words in _STATES.items() for word in words.split()}

_NAME_WORDS: Final = {
    "filler": "is has was been e email emails mail message date time timestamp datetime at on ts last first"
    " from marked as global globally all reported contact number of total count utc marketing"
    " for the fur der die des de del della do da du la van voor",
    "textual": "reason cause type subtype category class classification description detail details campaign"
    " title id other why"
    " grund ursache motif raison motivo razon causa razao ragione reden oorzaak powod przyczyna",
}
"""Words in the name of a column that say no more about what happened; and that its cells are words, too."""
_NAME_WORD: Final = {word: use for use, words in _NAME_WORDS.items() for word in words.split()}
_CELL_ONLY: Final = re.compile(
    r"ok|success(?:ful)?|hard|soft|permanent|temporary|transient|feedback|returned|junk|deliver|retry"
    r"|error(?:ed)?|giveup|gaveup"
)
_JOINED: Final = (
    _row(
        OutcomeKind.BOUNCED,
        r"bounced?(?:category|reason|class|type|description|detail)|clean(?:ed)?(?:reason|time|at|campaign)"
        r"|(?:black|block|suppress(?:ion)?)(?:list)?(?:ed)?reason",
    ),
    _row(OutcomeKind.COMPLAINED, r"(?:complain(?:ed|t)|abuse|spam)(?:report)?(?:ed)?(?:time|date|at|on)\b"),
    _row(
        OutcomeKind.UNSUBSCRIBED,
        r"(?:unsub|unsubscribed?|optout|optedout)(?:time|date|at|on|reason|campaign|method|source)"
        r"|stop(?:reason|method)|(?:abmeld|abbestell|austrag)(?:e|ungs?)?grund"
        r"|(?:afmeld|uitschrij[fv])(?:ings)?reden",
    ),
)
"""How a column's name begins, written as one word, that has a value only where this happened."""


def kind_of(word: str) -> OutcomeKind | None:
    """Return what a sender's word means, "Hard Bounce" for one; None for words that tell of nothing."""
    return _kind_of(word) if len(word) <= _LONGEST_WORDS else None


@lru_cache(maxsize=4_096)  # a column that says what happened has few words
def _kind_of(word: str) -> OutcomeKind | None:
    if _is_of_another_channel(word) or _REPLY.match(word):
        return None
    plain = _apart(word if " " in word else word.rpartition(".")[2])  # users.messages.email.Bounce
    alone = re.sub(r"[^a-z]", "", plain)
    known = _KIND_OF.get(alone) or _KIND_OF.get(_INFLECTED.sub("o", alone))
    if known or not 1 < len(re.split(r"[\s-]+", plain)) <= _LONGEST_PHRASE or re.search(r"\d", plain):
        return known or _kind_in_japanese(word)
    if " " not in word and _NO_MAILBOX.search(plain):
        return OutcomeKind.BOUNCED
    phrase = next((row for row in _PHRASES if row[0].search(plain)), None)
    if phrase or len(plain.split()) > _LONGEST_NAME:
        return phrase[1] if phrase else None
    words = re.split(r"[\s-]+", plain)
    telling = {word for word in words if word in _KIND_OF}
    if telling <= _ATTEMPTED and not all(word in telling or _SAYS_NO_MORE.fullmatch(word) for word in words):
        return None
    kinds = {_KIND_OF[word] for word in telling}
    is_denied = kinds == {OutcomeKind.DELIVERED} and any(re.fullmatch(_NOT, word) for word in words)
    return kinds.pop() if len(kinds) == 1 and not is_denied else None


_REPLY: Final = re.compile(r"\W*[245](?:\d\d(?!\d)|\.\d{1,3}\.\d{1,3})\b")
"""A server's answer, whose words say why: "554 5.7.1 spam" is no complaint."""
_INFLECTED: Final = re.compile(r"[aeiy]\Z")
"""Of what ends in -o in the lists: "rimbalzata", "otwarty"."""

_JAPANESE: Final = (
    _row(OutcomeKind.COMPLAINED, r"迷惑|スパム|苦情|通報"),
    _row(OutcomeKind.UNSUBSCRIBED, r"(?:配信|購読|受信)(?:を)?(?:停止|解除)|退会|登録解除|オプトアウト"),
    _row(OutcomeKind.DEFERRED, r"一時|遅延|再送|保留|ソフトバウンス"),
    _row(None, r"未(?:開封|クリック|配信|送信)"),
    _row(OutcomeKind.BOUNCED, r"不達|未達|失敗|エラー|バウンス|不能|不可|拒否"),
    _row(OutcomeKind.DELIVERED, r"開封|クリック|到達|(?:配信|送達)成功|送達(?:完了|済)"),
)
"""The same in a script that sets no spaces, the first row that is in a word."""
_LONGEST_JAPANESE: Final = 12


def _kind_in_japanese(word: str) -> OutcomeKind | None:
    plain = normalize("NFKC", word)
    if len(plain) > _LONGEST_JAPANESE or plain.isascii():
        return None
    return next((kind for pattern, kind in _JAPANESE if pattern.search(plain)), None)


def kind_in_name(name: str) -> tuple[OutcomeKind, bool] | None:
    """Return what happened where a column of that name says something: "Has hard bounced", "UNSUB_TIME".

    Returns:
        The kind, and whether the column's cells are words beside yes and no, numbers and times.
    """
    words = _apart(name.replace("-", " ")).split()
    uses = [_NAME_WORD.get(word, "") for word in words]
    rest = "".join(word for word, use in zip(words, uses, strict=True) if not use)
    kind = None if _CELL_ONLY.fullmatch(rest) else _KIND_OF.get(rest)
    textual = "textual" in uses
    if kind and not (textual and (kind is OutcomeKind.DELIVERED or rest == "spam")):
        return kind, textual
    plain = letters(name)
    kind = _kind_in_japanese(name) if "理由" in name else None
    if kind and kind is not OutcomeKind.DELIVERED:
        return kind, True
    return next(((kind, True) for pattern, kind in _JOINED if kind and pattern.match(plain)), None)


def is_kind(cell: str) -> bool:
    """Say whether a cell tells what happened."""
    return kind_of(cell) is not None


def _is_state(cell: str) -> bool:
    """Say whether a cell tells what happened, or that nothing has happened yet."""
    return is_kind(cell) or _plain(cell if " " in cell else cell.rpartition(".")[2]) in _STATE_OF


def is_of_people(cell: str) -> bool:
    """Say whether a cell tells how a reader stands to a list ("active"), and not what a message came to."""
    return _STATE_OF.get(_plain(cell)) == "of people"


def _says(words: str) -> Callable[[str], bool]:
    """Return what says whether the letters of a cell are one of some words, a pattern."""
    known = re.compile(words)
    return lambda cell: bool(known.fullmatch(_plain(cell[:_LONGEST_WORDS])))


_is_subscribed: Final = _says(
    r"active|aktiv|actif|activo|ativo|attivo|actief|aktywny|enabled|subscribed?|confirmed|registered"
)
"""Says whether a cell tells that somebody on a list is written to."""

_is_change: Final = _says(r"(?:subscription|subscriber|preferences?)?(?:status)?changed?")
"""Says whether a cell tells that a reader's standing has changed, and another one to what: HubSpot's."""

_is_affair: Final = _says(
    r"closed|solved|resolved|reopened|won|lost|shipped|intransit|refunded|paid|unpaid|fulfilled|onhold"
    r"|succeeded|declined"
)
"""Says whether a cell tells how an order, a ticket or a deal stands, of which others are "open"."""

_is_handed_over: Final = _says(
    r"(?:message)?sent|send|relayed|versendet|gesendet|envoye|enviado|inviato|verzonden"
)
"""Says whether a cell says that a message went out: arrived it has if a server answered so."""

_is_of_anything: Final = _says(
    r"ok|success(?:ful)?|fail(?:ed|ure)?|error(?:ed)?|reject(?:ed)?|invalid|blocked|returned|expired|dropped"
)
"""Says whether a cell tells how something ended, of which it need not be a message: "failed"."""


_ANOTHER_CHANNEL: Final = re.compile(
    r"\b(?:sms|mms|rcs|whats ?app|viber|(?:line|text) messag\w+|in[ -]?app|(?:web|mobile|app)?[ -]?push)\b"
)
"""Ways to somebody that lead to no mailbox, though an address stands beside them to say who it was."""


def _is_of_another_channel(cell: str) -> bool:
    """Say whether a cell tells of what was not sent by mail: "sms", "pushBounce", "Clicked SMS"."""
    return bool(_ANOTHER_CHANNEL.search(_apart(cell[:_LONGEST_WORDS])))


_ANSWER: Final = re.compile(
    r"\W*(?:auto(?:matic|mated|matische?)?[ -]?(?:repl\w+|respon\w+|answer\w*|antwort\w*)"
    r"|out[ -]of[ -](?:the[ -])?office|vacation|abwesen\w+|challenge\b|respuesta automatica"
    r"|reponse automatique|resposta automatica|risposta automatica|automatisch antwoord|autoodpowiedz)"
)
"""Of an absence note, or what asks whether a person has written: no failure."""
_LONGEST_ANSWER: Final = 60


def _is_answer(cell: str) -> bool:
    """Say whether a cell calls what came back an answer to a message that arrived: "Auto-reply"."""
    return len(cell) <= _LONGEST_ANSWER and bool(_ANSWER.match(_apart(cell)))


def _is_forecast(name: str, cells: Iterable[str]) -> bool:
    """Say whether a column has verdicts, ours or another verifier's: what may happen, not what did."""
    plain = letters(name)
    if plain.startswith("mailsift") or _VERIFICATION.search(f"{plain} {name}"):
        return True
    by_words = {_plain(cell[:_LONGEST_WORDS]): cell for cell in cells if cell}
    others = (cell for plain, cell in by_words.items() if plain not in _OF_VERDICTS)
    return not _VERDICTS.isdisjoint(by_words) and not any(map(kind_of, others))


def _is_trait(name: str) -> bool:
    """Say whether a column of that name tells what only a verifier says of an address: "Accept all"."""
    return bool(_TRAIT.fullmatch(letters(name)))


def _is_of_verdicts(name: str) -> bool:
    """Say whether a column's name is a word of verifiers, though senders have it, too: "Abuse"."""
    return letters(name) in _OF_VERDICTS


def _tells_of_messages(cells: Iterable[str]) -> bool:
    """Say whether a column tells what became of messages, in words that are none of a verifier's."""
    known = [cell for cell in cells if is_kind(cell)]
    if not _VERDICTS.isdisjoint(map(_plain, cells)):
        return False
    return any(not _OF_VERDICTS.issuperset(_KIND_OF.keys() & set(_apart(cell).split())) for cell in known)


_VERIFICATION: Final = re.compile(
    r"verifi(?!ed)|verifika|weryfik|validat(?!ed)|validierung|validacion|validacao|convalida|deliverability"
    r"|verdict|pruf|(?:smtp|mx|mailbox)check|check(?:result|status)|検証|有効性"
)
"""In the name of a column of verdicts."""
_TRAIT: Final = re.compile(
    r"[a-z]{0,4}(?:disposable|catchall|acceptall|roleaccount|rolebased|role|freeemail|spamtrap|gibberish|toxic"
    r"|didyoumean|quality|exists)[a-z]{0,10}|[a-z]{0,5}(?:verified|validated|checked)(?:at|on|date)"
)
_VERDICTS: Final = frozenset(
    {"valid", "deliverable", "risky", "catchall", "acceptall", "donotmail", "exists"}
)
_OF_VERDICTS: Final = frozenset(
    {"invalid", "undeliverable", "abuse", "spamtrap", "spam", "rejected", "error", "ok", "success", "failed"}
    | {"fail", "failure", "blocked", "block", "nonexistent", "permanent", "temporary"}
)
"""Words of verifiers, and those that they share with senders."""


def _is_dropped(cell: str) -> bool:
    """Say whether a cell says that the sender kept a message back itself."""
    return bool(re.search(r"\b(?:drop(?:ped)?|suppressed|pre-? ?blocked)\b", _apart(cell)))


def _is_about_mail(name: str) -> bool:
    """Say whether a column of that name is about messages."""
    return bool(_OF_MAIL.search(letters(name)))


_OF_MAIL: Final = re.compile(
    r"subject|campaign|newsletter|message.|mailing|bounce|smtp|dsn|deliver|recipient|rcpt|sender|^from$|^to$"
    r"|template|spam|complain|unsub|suppress|betreff|absender|empfanger|objet|expediteur|destinat|asunto|remitente"
    r"|oggetto|mittente|onderwerp|afzender|ontvanger|assunto|remetente|temat|nadawca|odbiorca"
)


def letters(name: str) -> str:
    """Return the letters of a column's name alone, small and without accents."""
    return re.sub(r"[^a-z]", "", normalize("NFKD", name).lower())


def _plain(word: str) -> str:
    return letters(_apart(word))


def _apart(word: str) -> str:
    """Return a name's words apart, small and without accents: "emailBounce", "spam_complaint"."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.:/]", " ", word)
    return "".join(letter for letter in normalize("NFKD", apart) if not combining(letter)).lower()
