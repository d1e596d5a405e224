"""Invents domain names that look like those of firms; a few of them international (IDNA 2008)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import idna

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
