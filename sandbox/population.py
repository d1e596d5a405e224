"""The population: invented firms and people, and who of them has a mailbox; a pure function of the seed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from enum import StrEnum
from hashlib import blake2b

import idna

_FIRST_TEXT = """
aaron abby adam adrian agnes ahmed alan albert alex alice alina amanda amir amy ana andre andrea angela anna
anton arthur astrid aylin barbara beatriz ben benjamin bianca boris brian bruno camila carl carlos carmen
caroline cecilia celine charles chloe chris claire clara claudia daniel david deborah denis diana diego dirk
dmitri dominik dora edith eduardo elena elif elisa ella emil emily emma eric erika ester eva fabian fatima
felix fiona florian francesca frank fred gabriel georg gina giulia grace greta hana hannah hans harold heidi
helen henry hugo ian ines ingrid irene isabel ivan jack jacob jakub james jana jane jason jean jennifer jens
jessica joana johan john jonas jorge jose julia julian karen karin karl kate kevin klara lars laura lea leo
lina linda lisa lorenzo louis lucas lucia luis luisa maja manuel marc marco maria marie mario marta martin
mary mateo maud maya megan mia michael miguel mila mina mohamed monika nadia natalia nick nina noah nora
olga oliver olivia omar oscar pablo patricia paul paula pedro peter petra philip pia rachel ralf raul
rebecca renate ricardo richard rita robert rosa ruth ryan sam samuel sandra sara sarah sebastian simon sofia
sophie stefan steven susan sven sylvia tanja teresa theo thomas tim tina tobias tom ulrich ursula valentin
vera victor vincent walter wendy william yasmin yuki zoe
"""
FIRST = tuple(_FIRST_TEXT.split())
_LAST_TEXT = """
adams aguilar albrecht alvarez andersen anderson arnold bailey baker barbosa barnes bauer beck becker bell
bennett berg bernard bianchi blanc bonnet boyd braun brooks brown bruno burns butler campbell cardoso carter
castro chang chapman clark collins conti cook cooper costa cruz davies davis delgado diaz dietrich dubois
dupont edwards engel esposito evans faber fernandez ferrari fischer fletcher flores fontaine forster foster
fournier franke friedrich fuchs gallo garcia garnier gibson gomez gonzalez graham gray green greco griffin
gruber gutierrez haas hall hansen harris hartmann hayes henderson hernandez herrera hoffmann horn hughes
hunt iversen jackson jansen jensen jimenez johansson johnson jones jung kaiser keller kelly kim king klein
koch kowalski kraus kruger kuhn lambert lang larsen lefevre lehmann lewis lindberg lombardi lopez lorenz
ludwig maier marino marques marshall martinez mason mayer mendes mercier meyer miller mitchell moreau moreno
morgan moretti morris muller murphy navarro nelson neumann nguyen nielsen novak olsen ortiz otto owens
palmer parker pereira perez peterson petit pham phillips pohl popescu powell price quinn ramirez ramos reed
reyes ricci richter rivera roberts robinson rodriguez rogers romano romero ross rossi roth roussel russell
ruiz santos sanchez sauer schmidt schneider scholz schubert schulz schwarz scott silva simmons smith sommer
sousa stein stewart suarez sullivan taylor teixeira thomas torres turner vargas vasquez vogel wagner walker
wallace walter ward watson weber weiss werner white williams wilson winkler wolf wood wright yilmaz young
zhang ziegler zimmermann
"""
LAST = tuple(_LAST_TEXT.split())
ROLES = (
    "admin",
    "billing",
    "careers",
    "contact",
    "hello",
    "hr",
    "info",
    "jobs",
    "office",
    "sales",
    "support",
)
UNICODE = (
    "josé", "jürgen", "françois", "søren", "zoë.müller", "renée", "łukasz", "andré.león", "дмитрий",
    "ольга.иванова", "γιώργος", "李伟", "山田太郎", "김민수", "björn.åkesson", "núria",
)  # fmt: skip
"""Local parts that need SMTPUTF8 (RFC 6531)."""

_KNOWN = frozenset((*FIRST, *LAST, *ROLES, *UNICODE))
_LAST = frozenset(LAST)
_SHAPE = re.compile(r"([a-z]+)(?:[._-]([a-z]+))?(\d{0,4})", re.ASCII)


class Mailbox(StrEnum):
    """What there is behind an address."""

    EXISTS = "exists"
    MISSING = "missing"
    FULL = "full"
    DISABLED = "disabled"


_MARKERS = {
    "known": Mailbox.EXISTS,
    "nobody": Mailbox.MISSING,
    "full": Mailbox.FULL,
    "disabled": Mailbox.DISABLED,
}
"""Local parts with a fixed fate at every domain that looks at mailboxes; digits may follow (`known17`)."""

# Thousandths of the plausible addresses, cumulated: 8 % are gone, 0.5 % full, 0.5 % disabled.
_FATES = ((80, Mailbox.MISSING), (85, Mailbox.FULL), (90, Mailbox.DISABLED))


def mailbox(key: bytes, local: str, domain: str) -> Mailbox:
    """Say what there is behind an address of a domain that looks at mailboxes.

    Args:
        key: the world's seed as 8 octets.
        local: local part in lower case; a `+tag` does not matter.
        domain: ASCII domain in lower case.

    Returns:
        MISSING for everything that is not made of the vocabulary, so a random local part never exists.
    """
    base = local.partition("+")[0]
    if base not in _KNOWN:
        shape = _SHAPE.fullmatch(base)
        if shape is None:
            return Mailbox.MISSING
        first, last, _ = shape.groups()
        if last is None and first in _MARKERS:
            return _MARKERS[first]
        if not _plausible(first, last):
            return Mailbox.MISSING
    digest = blake2b(f"{base}@{domain}".encode(), digest_size=4, key=key).digest()
    draw = int.from_bytes(digest, "big") % 1000
    return next((fate for limit, fate in _FATES if draw < limit), Mailbox.EXISTS)


def _plausible(first: str, last: str | None) -> bool:
    if last is None:
        return first in _KNOWN or first[1:] in _LAST
    return last in _LAST and (first in _KNOWN or len(first) == 1)


def invent_local(rng: random.Random, *, crowded: bool = False) -> tuple[str, str, str]:
    """Return first name, last name and a local part made of them in one of the usual shapes.

    At a `crowded` domain the short ones have gone long ago.
    """
    draw = rng.random() / 2 if crowded else rng.random()
    first, last = FIRST[int(rng.random() * len(FIRST))], LAST[int(rng.random() * len(LAST))]
    digits = str(int(rng.random() * 9999))
    if draw < 0.3:
        local = f"{first}.{last}{digits}"
    elif draw < 0.4:
        local = f"{first}_{last}{digits}"
    elif draw < 0.5:
        local = first + digits
    elif draw < 0.85:
        local = f"{first}.{last}"
    else:
        local = first[0] + last
    return first, last, local


_WORDS_TEXT = """
alder amber anchor apex arbor arc aspen atlas aurora autumn axis bamboo basalt bay beacon birch bluff bolt
boreal branch breeze bridge bright brook cactus canyon cedar chalk cinder citrus clay clear cliff clover
coast cobalt copper coral core crane crest crystal cypress dawn delta dune eagle earth east echo edge elm
ember ever falcon fern field fjord flint forge forest fox frost garnet glacier glen golden granite grove
harbor haven hawk hazel heath heron hill hollow honey horizon iris iron island ivory jade juniper kelp
keystone lagoon lake larch laurel lemon light lime linden lotus lunar lynx magnet maple marble marsh meadow
mesa mint mist moon moss mountain nectar nimbus noble north oak oasis ocean olive onyx opal orbit orchid
osprey otter palm pearl pebble peak pine pioneer plain plum polar poplar prairie prism quartz quill raven
reef ridge river robin rock rowan ruby saffron sage sand sapphire sea sequoia shell shore sierra silver sky
slate solar sparrow spring spruce star stone storm stream summit sun swift tern thistle thunder tide timber
topaz torrent trail tulip twin umber union upland valley velvet vista walnut wave west willow wind winter
wren yarrow zenith zephyr
"""
_WORDS = tuple(_WORDS_TEXT.split())
_TRADES_TEXT = """
advisory agency analytics books build capital care catering cloud clinic consulting data dental design
digital energy engineering farms finance fitness foods freight furniture garden group health homes hotels
industries insurance interiors kitchen labs legal logistics machines marine media mobility motors music
optics partners pharma photo pictures planning plastics power press print properties research retail
robotics school security shipping software solutions sports steel studio supply systems tech textiles tools
toys trading travel ventures wine works
"""
_TRADES = tuple(_TRADES_TEXT.split())
_TLDS = (*("com",) * 9, "net", "org", "de", "de", "co.uk", "fr", "it", "es", "nl", "ch", "at", "pl", "eu")
_INTERNATIONAL = (
    "bäckerei", "müller", "größe", "café", "hôtel", "façade", "niño", "señor", "smørrebrød", "ångström",
    "łódź", "čokoláda", "кафе", "магазин", "εστία", "書店", "公司", "회사",
)  # fmt: skip


def firms(rng: random.Random) -> Iterator[str]:
    """Yield distinct domain names in lower case, without end; about 1 % have non-ASCII letters."""
    seen: set[str] = set()
    while True:
        word, trade, tld = rng.choice(_WORDS), rng.choice(_TRADES), rng.choice(_TLDS)
        draw = rng.random()
        if draw < 0.01:
            label = f"{rng.choice(_INTERNATIONAL)}-{word}"
        elif draw < 0.3:
            label = f"{word}-{trade}"
        elif draw < 0.6:
            label = f"{word}{trade}"
        else:
            label = f"{word}{rng.choice(_WORDS)}{trade}"
        if label in seen:
            label += str(rng.randrange(10, 10_000))
        if label not in seen:
            seen.add(label)
            yield f"{label}.{tld}"


def to_ascii(name: str) -> str:
    """Return a domain name as DNS knows it (UTS 46, IDNA 2008)."""
    return name if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
