"""A small world as DNS knows it, and the ways in which a resolver can lie about it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b

import dns.message

from tests.unit.pipeline.dns_stub import NXDOMAIN, SERVFAIL, Says

CANARIES = ("gmail.com", "outlook.com", "yahoo.com", "gmx.net", "web.de")
SERVER, PORTAL = "127.0.2.1", "127.0.66.6"
"""Where the mail servers are, and where lies lead."""

REAL = ("shop.com", "web.com", "six.com", "post.net", "mail.office.de", "laden.fr")
DEAD = ("gone.com", "empty.com", "null.com", "inside.com", "lost.net", "fini.fr", "vide.fr")
TRUTH: dict[str, dict[str, Says]] = {
    **{name: {"MX": Says([f"10 mx.{name}."])} for name in CANARIES},
    **{f"mx.{name}": {"A": Says([f"127.0.1.{n}"])} for n, name in enumerate(CANARIES)},
    "mx.gmail.com": {"A": Says(["127.0.1.9"]), "AAAA": Says(["::1"])},
    "shop.com": {"MX": Says(["10 mx.shop.com."])},
    "mx.shop.com": {"A": Says([SERVER])},
    "web.com": {"A": Says([SERVER])},
    "six.com": {"MX": Says(["10 mx.six.com."])},
    "mx.six.com": {"AAAA": Says(["::1"])},
    "post.net": {"MX": Says(["10 mx.shop.com.", "20 mx.six.com."])},
    "mail.office.de": {"MX": Says(["10 mx.shop.com."])},
    "laden.fr": {"MX": Says(["10 mx.laden.fr."])},
    "mx.laden.fr": {"A": Says([SERVER])},
    "empty.com": {"TXT": Says()},
    "null.com": {"MX": Says(["0 ."])},
    "inside.com": {"MX": Says(["10 mx.inside.com."])},
    "mx.inside.com": {"A": Says(["10.1.2.3"])},
    "vide.fr": {"TXT": Says()},
}

Lie = Callable[[str, str, Says, int], Says]
"""Name, type, the honest answer and how many questions came before; returns what is said."""

NODATA = Says()
PRIVATE, ZERO = "10.0.0.1", "0.0.0.0"


def honest(name: str, kind: str) -> Says:
    types = TRUTH.get(name)
    return NXDOMAIN if types is None else types.get(kind, NODATA)


def saying(lie: Lie) -> Callable[[str, str], Says]:
    """A resolver that tells this lie."""
    numbers: Iterator[int] = iter(range(10**9))
    return lambda name, kind: lie(name, kind, honest(name, kind), next(numbers))


def always(says: Says) -> Lie:
    return lambda _name, _kind, _truth, _n: says


def addresses(address: str) -> Lie:
    """One address for every name; no mail server for any."""
    return lambda _name, kind, _truth, _n: Says([address]) if kind == "A" else NODATA


def by_type(**lies: Says) -> Lie:
    """A lie for each of these types, the truth for the others."""
    return lambda _name, kind, truth, _n: lies.get(kind, truth)


def wrong_addresses(address: str) -> Lie:
    return lambda _name, kind, truth, _n: Says([address]) if kind == "A" and truth.records else truth


def one_in_five(lie: Lie) -> Lie:
    dice = random.Random(1)
    return lambda name, kind, truth, n: lie(name, kind, truth, n) if dice.random() < 0.2 else truth


def one_name_in_five(lie: Lie, salt: int = 0) -> Lie:
    """The same names every time, whoever asks for whatever."""

    def say(name: str, kind: str, truth: Says, n: int) -> Says:
        chosen = blake2b(f"{salt}{name}".encode()).digest()[0] % 5 == 0
        return lie(name, kind, truth, n) if chosen else truth

    return say


def after(questions: int, lie: Lie) -> Lie:
    return lambda name, kind, truth, n: truth if n < questions else lie(name, kind, truth, n)


def by_turns(lie: Lie, questions: int = 1) -> Lie:
    return lambda name, kind, truth, n: lie(name, kind, truth, n) if n // questions % 2 else truth


def under(suffix: str, lie: Lie) -> Lie:
    """A lie about the names of one top-level domain only."""
    return lambda name, kind, truth, n: lie(name, kind, truth, n) if name.endswith(suffix) else truth


def of_nobody(lie: Lie) -> Lie:
    """A lie about names that do not exist."""
    return lambda name, kind, truth, n: lie(name, kind, truth, n) if truth.rcode == "NXDOMAIN" else truth


def aliased(name: str, kind: str, _truth: Says, _n: int) -> Says:
    """Every name is an alias of the portal's."""
    alias = f"{name}. 60 IN CNAME portal.lan."
    found = [f"portal.lan. 60 IN A {PORTAL}"] if kind == "A" else []
    return Says([alias, *found], zone="lan")


def _another_question(name: str, kind: str, _truth: Says, _n: int) -> Says:
    """The right id, and the answer to another question."""
    query = dns.message.make_query(f"other-{name}.", kind)
    return Says(garbage=Says(rcode="NXDOMAIN").to_wire(query, kind)[2:])


LIES: dict[str, Lie] = {
    "NXDOMAIN for all without SOA": always(Says(rcode="NXDOMAIN", zone=None)),
    "NXDOMAIN for all with the root's SOA": always(Says(rcode="NXDOMAIN", zone=".")),
    "NXDOMAIN for all with the right SOA": always(NXDOMAIN),
    "empty without SOA": always(Says(zone=None)),
    "empty with SOA": always(NODATA),
    "one public address": addresses(PORTAL),
    "one private address": addresses(PRIVATE),
    "the zero address": addresses(ZERO),
    "right MX, private addresses": wrong_addresses(PRIVATE),
    "right MX, one public address": wrong_addresses(PORTAL),
    "MX denied": by_type(MX=NODATA),
    "MX does not exist": by_type(MX=NXDOMAIN),
    "null MX for all": by_type(MX=Says(["0 ."])),
    "one in five denied": one_in_five(always(NXDOMAIN)),
    "NXDOMAIN after a while": after(60, always(NXDOMAIN)),
    "IPv6 for everybody": by_type(AAAA=Says(["::1"])),
    "an alias of the portal for all": aliased,
    "an alias of the portal for nobody": of_nobody(aliased),
    "everybody's mail server is localhost": by_type(MX=Says(["10 localhost."]), A=Says(["127.0.0.1"])),
    "everybody's mail server is an address": by_type(MX=Says(["10 127.0.66.6."])),
    "a wildcard that may not be kept": by_type(
        MX=Says(["10 mx.portal.com."], ttl=0), A=Says([PORTAL], ttl=0), AAAA=NODATA
    ),
    "mail servers for all of .fr": under(".fr", by_type(MX=Says(["10 mx.shop.com."]))),
    "mail servers of their own for all of .fr": under(
        ".fr",
        lambda name, kind, truth, _n: (
            Says([f"10 mx.{name}."]) if kind == "MX" else Says([PORTAL]) if kind == "A" else truth
        ),
    ),
    "addresses for all of .fr": under(".fr", by_type(A=Says([PORTAL]), MX=NODATA)),
    "IPv6 for all of .fr": under(".fr", by_type(AAAA=Says(["::1"]))),
    "always the same one in five denied": one_name_in_five(always(NXDOMAIN)),
    "always the same one in five, others": one_name_in_five(always(NXDOMAIN), 1),
    "always the same one in five private": one_name_in_five(wrong_addresses(PRIVATE)),
    "NXDOMAIN with answers": lambda _name, kind, truth, _n: (
        replace(truth, rcode="NXDOMAIN") if truth.records else Says([PORTAL] if kind == "A" else [])
    ),
    "NXDOMAIN for what is empty": lambda _n, _k, truth, _i: truth if truth.records else NXDOMAIN,
    "NODATA for what does not exist": of_nobody(always(NODATA)),
    "NAT64 instead of IPv4": by_type(A=NODATA, AAAA=Says(["64:ff9b::c000:201"])),
}
"""What the rules were built with."""

HELD_BACK: dict[str, Lie] = {
    "A denied": by_type(A=NXDOMAIN),
    "AAAA denied": by_type(AAAA=NODATA),
    "slow lies": always(Says(rcode="NXDOMAIN", delay=0.3)),
    "a search domain appended": lambda _n, kind, truth, _i: (
        Says([PORTAL]) if truth.rcode == "NXDOMAIN" and kind == "A" else truth
    ),
    "a captive portal": lambda _n, kind, _t, _i: Says([PORTAL]) if kind == "A" else Says(rcode="REFUSED"),
    "forged authority": lambda _n, kind, _t, _i: Says(
        ["10 mx.portal.com."] if kind == "MX" else [PORTAL] if kind == "A" else [], authoritative=True
    ),
    "SERVFAIL and NXDOMAIN by turns": lambda _n, _k, _t, n: SERVFAIL if n % 2 else NXDOMAIN,
    "records of others": lambda _n, kind, _t, _i: Says(
        ["other.com. 60 IN MX 10 mx.shop.com." if kind == "MX" else "other.com. 60 IN A 127.0.0.1"]
    ),
    "truncated lies": always(Says(rcode="NXDOMAIN", truncated=True)),
    "its own address after a while": after(75, addresses("127.0.0.1")),
    "one in five at a private address": one_in_five(wrong_addresses(PRIVATE)),
    "one in five empty": one_in_five(always(NODATA)),
    "MX at the portal for all": by_type(MX=Says(["10 mx.portal.com."]), A=Says([PORTAL])),
    "denied with a stranger's SOA": always(Says(rcode="NXDOMAIN", zone="captive.portal.")),
    "everything refused after a while": after(70, always(Says(rcode="REFUSED"))),
    "the answer to another question": _another_question,
    "a loop of aliases": lambda name, _k, _t, _n: Says([f"{name}. 60 IN CNAME {name}."]),
    "somebody else's mail server for all": by_type(MX=Says(["10 mx.gmail.com."])),
    "one name in five at the portal": one_name_in_five(
        by_type(MX=Says(["10 mx.portal.com."]), A=Says([PORTAL])), 2
    ),
    "one name in five empty": one_name_in_five(always(NODATA), 3),
    "denials by turns": by_turns(always(NXDOMAIN)),
    "denials for a while": by_turns(always(NXDOMAIN), 45),
    "SERVFAIL for what does not exist": of_nobody(always(SERVFAIL)),
    "an address for who has none": lambda _n, kind, truth, _i: (
        Says([PORTAL]) if kind == "A" and not truth.records else truth
    ),
    "parking for nobody": of_nobody(by_type(MX=Says(["10 park.shop.com."]), A=Says([PORTAL]))),
    "parking for all of .fr": under(".fr", by_type(MX=Says(["0 mx.shop.com.", "10 mx.shop.com."]))),
    "aliases for all of .fr": under(".fr", aliased),
    "null MX for all of .net": under(".net", by_type(MX=Says(["0 ."]))),
}
"""What nobody looked at while the rules were built."""
