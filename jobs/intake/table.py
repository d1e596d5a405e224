"""A list while it is being read: anonymous columns, their names, and which one has the addresses.

That one is found by what was asked for, by name, by content.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import polars as pl

from mailsift.jobs.columns import column_id
from mailsift.pipeline.errors import MailsiftError

SAMPLE_ROWS = 1_001
"""By how many rows the address column is found, a header among them."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """What a reader found.

    Attributes:
        frame: the rows in order, nothing computed yet; its columns are named by `jobs.columns.column_id`.
        names: the columns' names, or None when the first row may hold them.
        format, encoding: as in `Intake`.
        uncomputed: columns with formulas of which the file has no results.
    """

    frame: pl.LazyFrame
    names: tuple[str, ...] | None
    format: str
    encoding: str = ""
    uncomputed: frozenset[str] = frozenset()


_EXAMPLE = re.compile(r"\([^\s()@]+\s[^()@]*@[^()@]*\)")
"""Of an address, behind a column's name: `(like ann@example.com)`."""


def _plain(name: str) -> str:
    """Return the letters and digits of a name in lower case, without accents and examples."""
    return "".join(filter(str.isalnum, _EXAMPLE.sub("", unicodedata.normalize("NFKD", name)).casefold()))


_OTHER_NAMES = """
email addr, mail addr, electronic mail, correo-e,
netfang, tölvupóstur, seoladh ríomhphoist, ríomhphost, adresse courriel, adresse de courriel,
adresse de messagerie, dirección de correo electrónico, dirección de correo, dirección de email,
correu electrònic, adreça electrònica, endereço de email, correio eletrónico, correio eletrônico,
posta elettronica, indirizzo di posta elettronica, indirizzo mail, mailadres, e-mail adres,
epost-adresse, epostadresse, mejl, mejladress, mailadress, sähköposti, sähköpostiosoite,
e-posti aadress, meiliaadress, e-pasts, e-pasta adrese, el. paštas, el. pašto adresas, adres e-mail,
adres mailowy, adres poczty elektronicznej, poczta elektroniczna, e-mailová adresa,
elektronická pošta, e-mail cím, drótposta, e-poštni naslov, e-pošta, elektronska pošta,
e-mail adresa, elektronička pošta, adresă de e-mail, adresa de e-mail, poștă electronică, имејл,
е-пошта, имейл, имейл адрес, електронна поща, ηλεκτρονικό ταχυδρομείο, ηλεκτρονική διεύθυνση,
διεύθυνση email, διεύθυνση ηλεκτρονικού ταχυδρομείου, e-posta, e-posta adresi, eposta, elektron poçt,
електронна пошта, ел. пошта, адреса електронної пошти, эл. почта, адрес эл. почты,
адрес электронной почты, электронный адрес, e-mail адрес, адрес email, имэйл, электрондық пошта,
ელფოსტა, ელ. ფოსტა, էլ. փոստ, אימייל, דואל, דואר אלקטרוני, כתובת אימייל, כתובת דואל,
البريد الإلكتروني, البريد الالكتروني, بريد إلكتروني, عنوان البريد الإلكتروني, الإيميل, ایمیل,
پست الکترونیک, آدرس ایمیل, ای میل, ईमेल, ई-मेल, ईमेल पता, ইমেইল, ইমেল, மின்னஞ்சல், อีเมล, อีเมล์,
ที่อยู่อีเมล, địa chỉ email, thư điện tử, alamat email, alamat surel, surel, alamat e-mel, e-mel,
电子邮箱, 邮箱地址, 电子邮件地址, 邮件地址, 电邮, 電子郵件, 電子信箱, 電子郵箱, 電郵,
電郵地址, 電子郵件地址, eメール, 電子メール, メアド,
eメールアドレス,
電子メールアドレス, 이메일주소, 전자우편, 전자메일, 메일, 메일주소, имэйл хаяг
"""
"""Of columns, by languages from west to east."""
_NAMES = {  # the first that a list has wins
    _plain(name): rank
    for rank, name in enumerate(
        (
            "email",
            "emailaddress",
            "mail",
            "mailaddress",
            "emails",
            "emailid",
            "emailadresse",
            "mailadresse",
            "adresseemail",
            "adressemail",
            "adresseelectronique",
            "courriel",
            "correo",
            "correoelectronico",
            "indirizzoemail",
            "enderecodeemail",
            "emailadres",
            "epost",
            "epostadress",
            "workemail",
            "businessemail",
            "primaryemail",
            "contactemail",
            "useremail",
            "useremailaddress",
            "personalemail",
            "emailwork",
            "email1",
            "почта",
            "электроннаяпочта",
            "邮箱",
            "电子邮件",
            "メール",
            "メールアドレス",
            "이메일",
            *_OTHER_NAMES.split(","),
        )
    )
}
_WITH_AT = r"[^\s@]\S*@\S+"
_ADDRESS_LIKE = rf"^\s*{_WITH_AT}(?:\s+(?:[/;,|&+]\s+)?{_WITH_AT})*\s*$"
"""An address or several."""
_MEANT_LIKE = rf"{_ADDRESS_LIKE}|<[^\s<>@]+@[^\s<>@]+>\s*$"
"""The same, and a name with its address in angle brackets, which is repaired most often."""
_MARKED = r"(?:^|[^\p{L}\d\s]\s+|[(\[:])[^\s<>@()\[\]:]+@[^\s<>@]+\.[^\s<>@]"
"""An address behind a mark: of a list (`- `, `1. `), or between it and a name. Behind a blank alone the name
may be a part of it.
"""
_DOMAIN = r"@([^\s@]+\.[^\s@.>]+)>?\s*$"
_WHOLE = r"^\s*[^\s@]+@[^\s@]+\.[^\s@]+\s*$"
_NOTHING = frozenset({"", "na", "nan", "nil", "none", "null"})
"""What stands for a missing address, as letters: `-`, `N/A`."""
_FIGURES = r"^[^\p{L}]*\d[^\p{L}]*$"
"""A number, a date, a telephone number."""
_YEAR = r"^\s*(?:19|20)\d\d\s*$"
"""Names of columns that hold figures, often enough."""
_ENOUGH = 0.3  # of a column's filled cells look like addresses
_NO_COLUMN = "No column is named like one with addresses, and none holds enough of them"
_LABEL = r"^\s*(\p{L}[^:=@]{0,30}?)\s*[:=]\s"
"""Before a field of a record that has a line for each."""
_SHOWN_NAMES, _SHOWN_CHARS = 20, 40
MOST_NOTES = 20  # rows above a header
_TITLE = 1  # cell that a title fills
COUNT = r"^(?:\(\d+ [^()@]+\)|\d+ rows?(?: selected| affected| in set.*| +\d+ columns?)?\.?)\s*$"
"""What terminals write below a table."""
_KIND_OF_MAIL = re.compile(r"\s*(?:\S+\s+)?e?-?mail(?:\s+[^\s@]+)?\s*", re.IGNORECASE)
_COMMENT = re.compile(r"\s*#+(?:\s+\S|[^\W\d])|[^@]*[^\W\d_]\s?:(?:\s|$)")
"""A comment, or a label as in `Owner: Ann`."""
_NO_NAME = re.compile(r"\d|\b(?:by|von|durch|par|por|da|przez|door|av)$", re.IGNORECASE)
"""What no person has before an address: a figure, or a word by which it made something."""
_SITE = re.compile(r"\.[^\W\d]")  # as domains have, and dates have not
_MOST_OF_PERSON = 5  # words: names, and the address
MOST_DIGITS = 9  # of a number that counts something; Python refuses to read thousands


def below_notes(table: SourceTable) -> SourceTable:
    """Return the table without the titles and notes that programs write above its header.

    They are no rows: there is no @ in them, but in sentences and behind labels, and addresses stand under one
    of the header's names. Each fills fewer cells than the header, or the first and the last of them are
    titles, as in reports of meetings; one title may stand above a list of one column. Nor are lines drawn
    below the header, wherever they stand again, or a count of rows there.
    """
    if table.names is not None:
        return table
    rows = as_texts(table.frame.head(MOST_NOTES + 2).collect(engine="streaming")).rows()
    place = header_place(rows)
    frame = table.frame.slice(place) if place else table.frame
    if _is_underlined(*rows[place : place + 2]):
        line, text = "".join(rows[place + 1]), pl.concat_str(pl.col(pl.String).fill_null(""))
        frame = frame.filter((text != line) & ~text.str.contains(COUNT))
    if not place:
        return replace(table, frame=frame)
    sample = as_texts(frame.head(SAMPLE_ROWS).collect(engine="streaming"))
    named = [n for n, name in enumerate(sample.row(0)) if is_address_name(name) or _is_kind_of_mail(name)]
    holds = any(address_shares(sample.select(pl.nth(index)))[0] for index in named)
    return replace(table, frame=_within_reach(frame)) if holds else table


def _is_underlined(header: Sequence[str] = (), below: Sequence[str] = (), /) -> bool:
    """Say whether a line is drawn below a header, as by terminals and in Markdown; `---` may be a cell."""
    line, cells = "".join(below), sum(map(bool, below))
    is_line = "---" in line and not line.strip("-+=:| \t")
    return is_line and (cells > 1 or len(line) >= len("".join(header))) and any(map(is_address_name, header))


def _within_reach(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows without the first and last columns in which none has a cell: only notes reach so far.

    Those of a workbook: in a text a cell that is not there is read as an empty one.
    """
    cells = frame.select(pl.all().count()).collect(engine="streaming").row(0)
    reached = [place for place, count in enumerate(cells) if count]
    names = frame.collect_schema().names()[reached[0] : reached[-1] + 1]
    return frame.select(pl.col(name).alias(column_id(place)) for place, name in enumerate(names))


def header_place(records: Sequence[Sequence[str]]) -> int:
    """Return where among a list's first records its header stands below notes, 0 where there are none."""
    return _place_of(records, is_address_name) or _place_of(records, _is_kind_of_mail)


def _place_of(records: Sequence[Sequence[str]], is_name: Callable[[str], bool]) -> int:
    notes: list[int] = []  # cells that are filled, of each
    for record in records[: MOST_NOTES + 1]:
        cells = sum(map(bool, map(str.strip, record)))
        if any(map(_mentions_address, record)) and not _is_note(record, cells):
            break
        if any(map(is_name, record)):
            has_titles = cells > _TITLE + 1 and max(notes[:1] + notes[-1:], default=cells) <= _TITLE
            is_titled = len(record) == sum(notes) == _TITLE and not any(map(_is_slip, records[: len(notes)]))
            return len(notes) if has_titles or is_titled or cells > max(notes, default=cells) else 0
        notes.append(0 if _is_comment(record) else cells)
    return 0


def _is_comment(record: Sequence[str]) -> bool:
    """Say whether a record is a comment or has a label, so that its cells are none; `#1001` is an order."""
    return any(map(_COMMENT.match, record[:1]))  # a blank line has no cells


def _is_note(record: Sequence[str], cells: int) -> bool:
    """Say whether a record of so many filled cells mentions an address but is no person with an address."""
    words = " ".join(record).split()
    place = next(place for place, word in enumerate(words) if "@" in word)
    if not place or "".join(words).count("@") > 1:
        return False
    if _is_comment(record):
        return cells <= _TITLE + 1
    is_sentence = len(words) > _MOST_OF_PERSON or bool(_NO_NAME.search(" ".join(words[:place])))
    return cells <= _TITLE and is_sentence and ">" not in "".join(words)


def _is_slip(title: Sequence[str]) -> bool:
    """Say whether what stands above the header of a single column may mean an address, or that none is."""
    cell = "".join(title)
    return "@" not in cell and bool(_SITE.search(cell) or (cell and _plain(cell) in _NOTHING))


@dataclass(frozen=True, slots=True)
class Choice:
    """The address column, counted from 0, all names, and whether the first row holds them."""

    index: int
    names: tuple[str, ...]
    header: bool


def choose_column(
    sample: pl.DataFrame, names: Sequence[str] | None, wanted: str, *, repair: bool = False
) -> Choice:
    """Choose the address column.

    Args:
        sample: the first rows of the list.
        names: the columns' names, None when the first row may hold them.
        wanted: a column's name, or its number from 1; "" to find it.
        repair: whether cells with a name and an address in angle brackets will do and, where there are none,
            cells with an address behind a mark.

    Raises:
        MailsiftError: `column_not_found` or `no_address_column`.
    """
    texts = as_texts(sample)
    if names is None:
        texts = _below_names(texts)
    # JSON, XLSX and Parquet can have NULs, text files and databases cannot
    top = [name.replace("\0", "") for name in (texts.row(0) if names is None else names)]
    first = top if names is not None else [cell.strip() for cell in top]
    if wanted:
        index = _asked_for(first, wanted, named=names is not None)
    else:
        index = _found(first, texts, (_MEANT_LIKE, _MARKED) if repair else (_ADDRESS_LIKE,))
    named = bool(wanted) and _plain(first[index]) == _plain(wanted)
    may_name = names is None and not _mentions_address(first[index])
    header = may_name and (named or not _is_data(texts, index))
    if names is None:
        exact = top if header else [""] * len(first)
        first = [name or f"column_{place}" for place, name in enumerate(exact, start=1)]
    return Choice(index, tuple(first), header)


def _below_names(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the rows, the first one shifted by a cell if it names all columns but the first, as R does.

    There, in a table whose rows have names, no address stands below the name of the addresses but behind it.
    """
    *first, last = texts.row(0)
    if last or not all(first):
        return texts
    shares = pairwise(address_shares(texts.slice(1)))
    if any(
        is_address_name(name) and not at and behind for name, (at, behind) in zip(first, shares, strict=True)
    ):
        head = pl.DataFrame([("", *first)], schema=texts.schema, orient="row")
        return pl.concat([head, texts.slice(1)])
    return texts


def _is_data(texts: pl.DataFrame, index: int) -> bool:
    """Tell whether the first row, without an address, is one like those below: taken for names it is lost.

    It is when it is blank, or has an address elsewhere, or a number or a date where most rows have one, or
    what stands for the address means nothing, stands there again or ends in a domain from there, or another
    cell stands there twice beside others of its column, but not when that is a name of such a column or the
    whole row comes again. A column of a survey has its name in it and nothing else.
    """
    first, below = texts.row(0), texts.slice(1)
    if not any(map(str.strip, first)):
        return True
    address = first[index].strip()
    if is_address_name(address):
        return False
    if (address and _plain(address) in _NOTHING) or any(address_shares(texts.head(1), _WHOLE)):
        return True
    again = below.filter(pl.nth(index).str.strip_chars() == address).rows() if address else ()
    others = zip(first, map(Counter, below), strict=True)
    is_kept = any(cell.strip() and many[cell] > 1 and many.keys() - {"", cell} for cell, many in others)
    if (again or is_kept) and first not in (again or below.rows()):
        return True
    domains = set(below.to_series(index).str.extract(_DOMAIN).str.to_lowercase().drop_nulls())
    if address.lower().endswith(tuple(domains)):
        return True
    figure = texts.select(pl.all().str.contains(_FIGURES) & ~pl.all().str.contains(_YEAR))
    filled = below.select(pl.all().str.contains(r"\S").sum()).row(0)
    alike = below.select(pl.all().str.contains(_FIGURES).sum()).row(0)
    return any(
        is_figure and 2 * like > count
        for is_figure, like, count in zip(figure.row(0), alike, filled, strict=True)
    )


def is_address_name(name: str) -> bool:
    """Say whether columns of addresses are called so."""
    return _plain(name) in _NAMES or name.strip() == "@"


def _is_kind_of_mail(name: str) -> bool:
    """Say whether a name may tell one column of addresses from another: `Mail privat`, `Work e-mail`."""
    return bool(_KIND_OF_MAIL.fullmatch(name))


def _mentions_address(cell: str) -> bool:
    return "@" in cell and not is_address_name(cell)


def as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that can hold addresses, and blanks for the others."""
    return frame.with_columns(
        pl.nth(place).cast(pl.String).fill_null("")
        if kind in (pl.String, pl.Categorical, pl.Enum)
        else pl.lit("").alias(name)
        for place, (name, kind) in enumerate(frame.schema.items())
    )


def address_shares(texts: pl.DataFrame, address_like: str = _ADDRESS_LIKE) -> list[float]:
    """Return for each column the share of address-like cells among the filled ones."""
    cell = pl.all()
    filled = cell.str.contains(r"\S")
    return list(texts.select((cell.str.contains(address_like).sum() / filled.sum()).fill_nan(0.0)).row(0))


def _asked_for(first: Sequence[str], wanted: str, *, named: bool) -> int:
    """Find the column the customer named or numbered; a name wins over a number."""
    for same in (str, _plain):
        places = [place for place, name in enumerate(first) if same(name) == same(wanted)]
        if places:
            return places[0]
    number = int(wanted) if wanted.isdecimal() and len(wanted) <= MOST_DIGITS else 0
    if 1 <= number <= len(first):
        return number - 1
    text = f"The list has no column of that name or number among its {len(first)}"
    listed = [_printable(name) for name in first[:_SHOWN_NAMES] if "@" not in name]
    # Without a header the first row is data, which no message may show.
    header = named or len(listed) == min(len(first), _SHOWN_NAMES)
    raise MailsiftError("column_not_found", f"{text}: {', '.join(listed)}." if header else f"{text}.")


def _found(first: Sequence[str], texts: pl.DataFrame, patterns: Sequence[str]) -> int:
    """Find the column by name, unless another one has more than twice its addresses; else by content.

    Addresses are what the first pattern says; the next one counts where no column has enough of these.
    """
    named = sorted(
        (_NAMES[plain], place) for place, name in enumerate(first) if (plain := _plain(name)) in _NAMES
    )
    for address_like in patterns:
        shares = address_shares(texts, address_like)
        counts = texts.select(pl.all().str.contains(address_like).sum()).row(0)
        best = _fullest(shares, counts, texts, address_like)
        held = [place for _, place in named if shares[place] > 0]
        for place in held:
            if 2 * counts[place] >= counts[best]:
                return place
        if shares[best] >= _ENOUGH:
            return best
        if named:
            return (held or [named[0][1]])[0]
    raise MailsiftError("no_address_column", f"{_NO_COLUMN}: {_what_instead(texts)}")


def _what_instead(texts: pl.DataFrame) -> str:
    """Return what to do about a list of which no column is found."""
    labels = set(texts.to_series(0).str.extract(_LABEL).drop_nulls())
    if texts.width == 1 and len(labels) > 1 and any(map(is_address_name, labels)):
        return "each line is a field; save the list as CSV or XLSX, with a row for each address."
    if any(max(address_shares(texts, meant)) >= _ENOUGH for meant in (_MEANT_LIKE, _MARKED)):
        return "many cells have more than the address; name the column, or let us `repair` the cells."
    is_uncut = texts.width == 1 and any(address_shares(texts, "@"))
    return (
        "lines have more than an address; save the table as CSV or XLSX." if is_uncut else "name the column."
    )


def _fullest(shares: Sequence[float], counts: Sequence[int], texts: pl.DataFrame, address_like: str) -> int:
    """Return the column with the most addresses.

    Of several it is the one with the fewest other cells, and the first. One with the same few again and again
    has those who keep or sell the list, without a slip among them: any other that holds enough addresses goes
    before it.
    """
    least, cell = min(_ENOUGH, max(shares)), pl.all()
    distinct = texts.select(cell.filter(cell.str.contains(address_like)).n_unique()).row(0)
    full = [place for place, share in enumerate(shares) if share >= least]
    enough = max(distinct[place] for place in full) / 2
    return max(
        (place for place in full if distinct[place] >= enough),
        key=lambda place: (counts[place], shares[place]),
    )


def _printable(name: str) -> str:
    text = "".join(char if char.isprintable() else " " for char in name).strip()
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
