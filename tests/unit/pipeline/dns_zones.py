"""A hundred ways in which a domain can be set up, or be answered for, and what may be said of its mail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from mailsift.pipeline.facts import DomainState
from tests.unit.pipeline.dns_stub import NXDOMAIN, REFUSED, SERVFAIL, Says

R, N, M, Z, U, X = (
    DomainState.ROUTED,
    DomainState.NOT_FOUND,
    DomainState.NO_MAIL_SERVER,
    DomainState.NULL_MX,
    DomainState.UNROUTABLE,
    DomainState.UNAVAILABLE,
)
PORTAL: Final = "127.0.66.6"
"""What every name under .ws gets."""


class SetUp(NamedTuple):
    """One domain.

    Attributes:
        kind: what is special about it.
        may_be: states that are true, or say nothing.
        zone: what is said, by name and type; "@" in names and records is the domain.
        domain: its name; "" = one under .test.
    """

    kind: str
    may_be: set[DomainState]
    zone: Mapping[str, Mapping[str, Says]]
    domain: str = ""


def mx(*exchangers: str, **more: Says) -> dict[str, dict[str, Says]]:
    """A domain with these exchangers."""
    return {"@": {"MX": Says([one if " " in one else f"10 {one}" for one in exchangers]), **more}}


def at(*addresses: str) -> dict[str, dict[str, Says]]:
    """A domain whose only exchanger has these addresses."""
    v4, v6 = [one for one in addresses if ":" not in one], [one for one in addresses if ":" in one]
    return {**mx("mx.@."), "mx.@": {"A": Says(v4), "AAAA": Says(v6)}}


def own(
    a: Says | None = None, aaaa: Says | None = None, mx_says: Says | None = None
) -> dict[str, dict[str, Says]]:
    """A domain without exchangers."""
    return {"@": {"MX": mx_says or Says(), "A": a or Says(), "AAAA": aaaa or Says()}}


def everything(says: Says) -> dict[str, dict[str, Says]]:
    return {"@": {"MX": says, "A": says, "AAAA": says}}


def alias(name: str, to: str) -> str:
    return f"{name} 60 IN CNAME {to}"


HOSTS: dict[str, dict[str, Says]] = {
    "mx.host.test": {"A": Says(["127.0.0.9"])},
    "six.host.test": {"AAAA": Says(["::1"])},
    "private.host.test": {"A": Says(["10.0.0.1"])},
    "broken.host.test": {"A": SERVFAIL, "AAAA": SERVFAIL},
    "empty.host.test": {"TXT": Says()},
}
GOOD = "mx.host.test."
CHAIN = [alias("@.", "c1.test."), *(alias(f"c{n}.test.", f"c{n + 1}.test.") for n in range(1, 8))]
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 56, "test"])
DEEP = ".".join(["e" * 63, "f" * 63, "g" * 63, "h" * 56, "test"])
assert len(LONG) == len(DEEP) == 253

SET_UPS: tuple[SetUp, ...] = (
    # aliases at the owner
    SetUp(
        "alias to a domain with MX",
        {R},
        {"@": {"MX": Says([alias("@.", "t.test."), f"t.test. 60 IN MX 10 {GOOD}"])}},
    ),
    SetUp("alias whose end is left out", {X}, everything(Says([alias("@.", "t.test.")], zone=None))),
    SetUp(
        "alias to a name without MX, with A",
        {R},
        {
            "@": {
                "MX": Says([alias("@.", "t.test.")], zone="test"),
                "A": Says([alias("@.", "t.test."), "t.test. 60 IN A 127.0.0.4"]),
            }
        },
    ),
    SetUp("chain of eight", {R}, {"@": {"MX": Says([*CHAIN, f"c8.test. 60 IN MX 10 {GOOD}"])}}),
    SetUp(
        "chain of eight told backwards",
        {R},
        {"@": {"MX": Says([f"c8.test. 60 IN MX 10 {GOOD}", *CHAIN[::-1]])}},
    ),
    SetUp("loop of two", {X}, everything(Says([alias("@.", "t.test."), alias("t.test.", "@.")], zone=None))),
    SetUp("alias of itself", {X}, everything(Says([alias("@.", "@.")], zone=None))),
    SetUp(
        "alias to a name that does not exist",
        {N},
        everything(Says([alias("@.", "gone.example.")], rcode="NXDOMAIN", zone="example")),
    ),
    SetUp(
        "alias to nothing, SOA of the wrong zone",
        {X},
        everything(Says([alias("@.", "gone.example.")], rcode="NXDOMAIN", zone="test")),
    ),
    SetUp(
        "alias to a name without records, SOA of the wrong zone",
        {X},
        everything(Says([alias("@.", "t.example.")], zone="test")),
    ),
    SetUp("alias and MX at one name", {R, X}, {"@": {"MX": Says([alias("@.", "t.test."), f"10 {GOOD}"])}}),
    SetUp(
        "two aliases at one name",
        {R, X},
        {"@": {"MX": Says([alias("@.", "u.test."), alias("@.", "t.test."), f"t.test. 60 IN MX 10 {GOOD}"])}},
    ),
    SetUp(
        "two aliases at one name, the other way round",
        {R, X},
        {"@": {"MX": Says([alias("@.", "t.test."), alias("@.", "u.test."), f"t.test. 60 IN MX 10 {GOOD}"])}},
    ),
    SetUp(
        "DNAME with its alias",
        {R},
        {
            "a.@": {
                "MX": Says(
                    ["@. 60 IN DNAME t.test.", alias("a.@.", "a.t.test."), f"a.t.test. 60 IN MX 10 {GOOD}"]
                )
            }
        },
        "a.d1.test",
    ),
    SetUp(
        "DNAME without its alias",
        {X},
        {"a.@": {"MX": Says(["@. 60 IN DNAME t.test.", f"a.t.test. 60 IN MX 10 {GOOD}"], zone=None)}},
        "a.d2.test",
    ),
    SetUp(
        "MX elsewhere at another spelling",
        {R},
        {"@": {"MX": Says([alias("@.", "T.Test."), f"t.tEST. 60 IN MX 10 {GOOD}"])}},
    ),
    # aliases at the exchanger
    SetUp(
        "exchanger is an alias",
        {R},
        {**mx("mx.@."), "mx.@": {"A": Says([alias("mx.@.", GOOD), f"{GOOD} 60 IN A 127.0.0.9"])}},
    ),
    SetUp(
        "exchanger is an alias in other letters",
        {R},
        {
            **mx("MX.@."),
            "mx.@": {"A": Says([alias("mx.@.", "MX.Host.Test."), "mx.HOST.test. 60 IN A 127.0.0.9"])},
        },
    ),
    SetUp(
        "exchanger is a loop",
        {X},
        {**mx("mx.@."), "mx.@": {"A": Says([alias("mx.@.", "my.@."), alias("my.@.", "mx.@.")], zone=None)}},
    ),
    SetUp(
        "exchanger is an alias of nothing",
        {M},
        {
            **mx("mx.@."),
            "mx.@": {
                k: Says([alias("mx.@.", "gone.example.")], rcode="NXDOMAIN", zone="example")
                for k in ("MX", "A", "AAAA")
            },
        },
    ),
    SetUp(
        "exchanger is an alias of a private host",
        {U},
        {**mx("mx.@."), "mx.@": {"A": Says([alias("mx.@.", "p.test."), "p.test. 60 IN A 10.0.0.9"])}},
    ),
    SetUp(
        "exchanger is an alias, its end with AAAA only",
        {R},
        {
            **mx("mx.@."),
            "mx.@": {
                "A": Says([alias("mx.@.", "t.test.")], zone="test"),
                "AAAA": Says([alias("mx.@.", "t.test."), "t.test. 60 IN AAAA ::1"]),
            },
        },
    ),
    # exchangers
    SetUp("address for a name", {U}, mx("127.0.0.1.")),
    SetUp("address for a name beside a good one", {R}, mx("127.0.0.1.", f"20 {GOOD}")),
    SetUp("IPv6 address for a name", {U}, mx("2001:db8::1.")),
    SetUp("address in brackets", {U}, mx("[127.0.0.1].")),
    SetUp("name with a port", {U}, mx("mx.host.test:25.")),
    SetUp("name with a port beside a good one", {R}, mx("mx.host.test:25.", f"20 {GOOD}")),
    SetUp("name with a blank behind it", {U}, mx("mx.host.test\\032.")),
    SetUp("name with a blank before it, beside a good one", {R}, mx("\\032mx.host.test.", f"20 {GOOD}")),
    SetUp("number for a top-level domain", {U}, mx("mx.host.7.")),
    SetUp("hexadecimal number", {U}, mx("0x7f000001.")),
    SetUp("name with a dot in a label", {U}, mx("mx\\.host.test.")),
    SetUp("name beyond ASCII", {U}, mx("m\\195\\188x.host.test.")),
    SetUp("name with a NUL", {U}, mx("mx\\000.host.test.")),
    SetUp("name in capitals", {R}, mx("MX.HOST.TEST.")),
    SetUp(
        "name with underscore and A-label",
        {R},
        {**mx("_mx.xn--mller-kva.test."), "_mx.xn--mller-kva.test": {"A": Says(["127.0.0.9"])}},
    ),
    SetUp("null MX", {Z}, mx("0 .")),
    SetUp("null MX with a preference", {Z}, mx("10 .")),
    SetUp("null MX beside a good one", {R}, mx("0 .", f"10 {GOOD}")),
    SetUp("null MX beside an address", {U}, mx("0 .", "127.0.0.1.")),
    SetUp("null MX twice", {Z}, mx("0 .", "10 .")),
    SetUp("null MX with an address of its own", {Z}, mx("0 .", A=Says(["127.0.0.9"]))),
    SetUp("null MX beside a dead one", {M}, mx("0 .", "10 gone.host.test.")),
    SetUp("itself, with an address", {R}, mx("@.", A=Says(["127.0.0.9"]))),
    SetUp("itself, without one", {M}, mx("@.")),
    SetUp("preference 65535", {R}, mx(f"65535 {GOOD}")),
    SetUp("the same one thrice", {R}, mx(f"10 {GOOD}", f"20 {GOOD}", f"30 {GOOD}")),
    SetUp(
        "ten dead ones before a good one",
        {R, X},
        mx(*(f"{n} gone{n}.host.test." for n in range(10)), f"99 {GOOD}"),
    ),
    SetUp(
        "ten private ones before a good one",
        {R, X},
        {
            **mx(*(f"{n} p{n}.@." for n in range(10)), f"99 {GOOD}"),
            **{f"p{n}.@": {"A": Says(["10.0.0.1"])} for n in range(10)},
        },
    ),
    SetUp(
        "twelve addresses for names before a good one",
        {R},
        mx(*(f"{n} 127.0.0.{n}." for n in range(12)), f"99 {GOOD}"),
    ),
    SetUp("nine dead ones", {M}, mx(*(f"{n} gone{n}.host.test." for n in range(9)))),
    SetUp("one that fails", {X}, mx("broken.host.test.")),
    SetUp("one that fails, one that is private", {X}, mx("private.host.test.", "broken.host.test.")),
    SetUp("one that fails, one that is dead", {X}, mx("gone.host.test.", "broken.host.test.")),
    SetUp("one that fails, one that is good", {R}, mx("broken.host.test.", GOOD)),
    SetUp("one without addresses", {M}, mx("empty.host.test.")),
    SetUp("one without addresses, one that is private", {U}, mx("empty.host.test.", "private.host.test.")),
    SetUp("exchanger of 253 octets", {R}, {**mx(f"{DEEP}."), DEEP: {"A": Says(["127.0.0.9"])}}),
    # names
    SetUp("name of 253 octets", {R}, mx(GOOD), LONG),
    SetUp("label of 63 octets", {R}, mx(GOOD), "k" * 63 + ".test"),
    SetUp("A-label", {R}, mx(GOOD), "xn--bcher-kva.test"),
    SetUp("A-label that is not canonical", {R, X}, mx(GOOD), "xn--a-ecp.test"),
    SetUp("A-label of nothing", {N}, {}, "xn--a.test"),
    SetUp("hyphens where they should not be", {R}, mx(GOOD), "-a-.test"),
    SetUp("label of 64 octets", {N}, {}, "l" * 64 + ".test"),
    # addresses
    SetUp("0.0.0.0", {U, X}, at("0.0.0.0")),
    SetUp("0.1.2.3", {U}, at("0.1.2.3")),
    SetUp("10/8", {U}, at("10.255.255.255")),
    SetUp("192.0.0.0/24", {U}, at("192.0.0.8")),
    SetUp("100.64/10", {U}, at("100.127.0.1")),
    SetUp("172.16/12", {U}, at("172.31.255.1")),
    SetUp("link-local", {U}, at("169.254.169.254", "fe80::1")),
    SetUp("multicast", {U}, at("224.0.0.1")),
    SetUp("broadcast", {U}, at("255.255.255.255")),
    SetUp("private IPv4 inside IPv6", {U}, at("::ffff:10.0.0.1")),
    SetUp("IPv4 inside IPv6", {R}, at("::ffff:127.0.0.9")),
    SetUp("6to4", {U}, at("2002:7f00:9::1")),
    SetUp("NAT64", {U}, at("64:ff9b::7f00:9")),
    SetUp("::", {U, X}, at("::")),
    SetUp("unique local", {U}, at("fd00::1")),
    SetUp("IPv6 alone", {R}, at("::1")),
    SetUp("private IPv4, public IPv6", {R}, at("10.0.0.1", "::1")),
    SetUp(
        "public address behind five private ones", {R}, at(*(f"10.0.0.{n}" for n in range(1, 6)), "127.0.0.9")
    ),
    SetUp(
        "IPv4 fails, IPv6 answers", {R, X}, {**mx("mx.@."), "mx.@": {"A": SERVFAIL, "AAAA": Says(["::1"])}}
    ),
    SetUp(
        "IPv4 answers, IPv6 fails", {R}, {**mx("mx.@."), "mx.@": {"A": Says(["127.0.0.9"]), "AAAA": SERVFAIL}}
    ),
    SetUp("no IPv4, IPv6 fails", {X}, {**mx("mx.@."), "mx.@": {"A": Says(), "AAAA": SERVFAIL}}),
    SetUp(
        "private IPv4, IPv6 fails", {X}, {**mx("mx.@."), "mx.@": {"A": Says(["10.0.0.1"]), "AAAA": REFUSED}}
    ),
    # without exchangers
    SetUp("address alone", {R}, own(Says(["127.0.0.4"]))),
    SetUp("IPv6 address alone", {R}, own(aaaa=Says(["::1"]))),
    SetUp("private address alone", {U}, own(Says(["192.168.0.1"]))),
    SetUp("nothing at all", {M}, own()),
    SetUp("address fails", {X}, own(SERVFAIL)),
    SetUp("MX fails, address answers", {X}, own(Says(["127.0.0.4"]), mx_says=SERVFAIL)),
    SetUp("MX refused, address answers", {X}, own(Says(["127.0.0.4"]), mx_says=REFUSED)),
    SetUp("MX not implemented, address answers", {X}, own(Says(["127.0.0.4"]), mx_says=Says(rcode="NOTIMP"))),
    SetUp("MX denied without SOA, address answers", {X}, own(Says(["127.0.0.4"]), mx_says=Says(zone=None))),
    SetUp("MX says there is no such name, address answers", {X}, own(Says(["127.0.0.4"]), mx_says=NXDOMAIN)),
    SetUp("address says there is no such name, MX does not", {M, X}, own(NXDOMAIN, NXDOMAIN)),
    SetUp("any name under the suffix has the address", {X}, own(Says([PORTAL])), "parked.ws"),
    SetUp("an address of its own where any name has one", {R}, own(Says(["127.0.0.4"])), "taken.ws"),
    SetUp("an exchanger of its own where any name has an address", {R}, mx(GOOD), "shop.ws"),
    # denials
    SetUp("no such name", {N}, {}),
    SetUp("no such name, SOA of the root", {X}, everything(Says(rcode="NXDOMAIN", zone=".")), "d3.com"),
    SetUp("no such name, no SOA", {X}, everything(Says(rcode="NXDOMAIN", zone=None))),
    SetUp("no such name, SOA of a neighbour", {X}, everything(Says(rcode="NXDOMAIN", zone="t.test"))),
    SetUp("no such name, SOA of the name itself", {X}, everything(Says(rcode="NXDOMAIN", zone="@"))),
    SetUp(
        "filtered: nothing, SOA of the name, 0.0.0.0 and ::",
        {X},
        own(Says(["0.0.0.0"]), Says(["::"]), Says(zone="@")),
    ),
    SetUp(
        "filtered: nothing, SOA of the name, 0.0.0.0",
        {X},
        own(Says(["0.0.0.0"]), Says(zone="@"), Says(zone="@")),
    ),
    SetUp(
        "filtered exchanger: 0.0.0.0 and ::",
        {X},
        {**mx("mx.@."), "mx.@": {"A": Says(["0.0.0.0"]), "AAAA": Says(["::"])}},
    ),
    SetUp("no records, SOA of the name", {M}, everything(Says(zone="@"))),
    SetUp("blocked: no such name", {X}, everything(Says(rcode="NXDOMAIN", extended_error=15))),
    SetUp("filtered: nothing", {X}, everything(Says(extended_error=17))),
    SetUp("no such name, stale", {X}, everything(Says(rcode="NXDOMAIN", extended_error=19))),
    SetUp("no such name, synthesized", {N}, everything(Says(rcode="NXDOMAIN", extended_error=29))),
    SetUp("exchangers, stale", {R}, {"@": {"MX": Says([f"10 {GOOD}"], extended_error=3)}}),
    SetUp(
        "censored exchanger: nothing",
        {X},
        {**mx("mx.@."), "mx.@": {"A": Says(extended_error=16), "AAAA": Says(extended_error=16)}},
    ),
    SetUp("referral", {X}, everything(Says(["t.test. 60 IN NS ns.test."], zone=None))),
    SetUp("no such name, but records", {R, X}, {"@": {"MX": Says([f"10 {GOOD}"], rcode="NXDOMAIN")}}),
    # whose records
    SetUp("exchangers of another name", {X}, everything(Says([f"t.test. 60 IN MX 10 {GOOD}"], zone=None))),
    SetUp(
        "exchangers of another name beside its own",
        {R},
        {"@": {"MX": Says(["t.test. 60 IN MX 1 gone.host.test.", f"10 {GOOD}"])}},
    ),
    SetUp(
        "addresses of another name for the exchanger",
        {X},
        {**mx("mx.@."), "mx.@": {"A": Says(["t.test. 60 IN A 127.0.0.9"], zone=None)}},
    ),
    # times
    SetUp("TTL 0", {R}, {"@": {"MX": Says([f"10 {GOOD}"], ttl=0)}}),
    SetUp("TTL of 68 years", {R}, {"@": {"MX": Says([f"10 {GOOD}"], ttl=2**31 - 1)}}),
    SetUp("TTL with the highest bit", {R}, {"@": {"MX": Says([f"10 {GOOD}"], ttl=2**32 - 1)}}),
    SetUp("null MX for years", {Z}, {"@": {"MX": Says(["0 ."], ttl=2**31 - 1)}}),
)


def placed(number: int, set_up: SetUp) -> tuple[str, dict[str, dict[str, Says]]]:
    """Return the domain, and what is said about it by name and type."""
    base = set_up.domain.removeprefix("a.") or f"z{number}.test"

    def named(text: str) -> str:
        return text.replace("@", base)

    def says(one: Says) -> Says:
        zone = one.zone and named(one.zone)
        return replace(one, records=[named(record) for record in one.records], zone=zone)

    zone = {
        named(name): {kind: says(one) for kind, one in types.items()} for name, types in set_up.zone.items()
    }
    return set_up.domain or base, zone


def unplaced(name: str, kind: str) -> Says:
    """What is said of names nobody set up."""
    if not name.endswith(".ws"):
        return NXDOMAIN
    return Says([PORTAL]) if kind == "A" else Says()
