"""The address guard against every trick the notes name."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.guard import AddressGuard

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1b",
    "::ffff:8.8.8.8",
]

NON_PUBLIC = [
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.1.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::127.0.0.1",  # IPv4-compatible
    "::ffff:10.0.0.1",  # IPv4-mapped
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",  # IPv4-translated
    "64:ff9b::a9fe:a9fe",  # NAT64 of 169.254.169.254
    "64:ff9b:1::1",  # local NAT64
    "100::1",  # discard
    "2001::1",  # Teredo
    "2001:10::1",  # ORCHID
    "2001:20::1",  # ORCHIDv2
    "2001:db8::1",  # documentation
    "2002:7f00:1::1",  # 6to4 of 127.0.0.1
    "2620:4f:8000::1",  # AS112
    "3fff::1",  # documentation
    "3fff:fff:ffff::1",
    "4000::1",  # not assigned
    "5f00::1",  # SRv6
    "fc00::1",  # unique local
    "fd00:ec2::254",  # cloud metadata
    "fe80::1",  # link-local
    "fec0::1",  # site-local
    "ff02::1",  # multicast
    "ff0e::1",
]

LOOPBACK = ["127.0.0.1", "127.1.2.3", "127.255.255.255", "::1", "::ffff:127.0.0.1"]

NOT_AN_ADDRESS = [
    "",
    " ",
    "localhost",
    "8.8.8.8.",
    "8.8.8.8:25",
    "[2001:4860:4860::8888]",
    "08.8.8.8",  # octal to some parsers
    "0x08080808",
    "134744072",
    "8.8.2056",
    "127.1",
    " 8.8.8.8",
    "8.8.8.8\n",
    "8.8.8.8\x00",
    "８.8.8.8",
    "2001:4860:4860::8888%eth0",  # scope ids choose an interface
    "fe80::1%1",
    "::ffff:8.8.8.8%1",
    "8.8.8.0/24",
]


@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("allow_non_public", [False, True])
def test_public_unicast_addresses_may_be_dialled(address: str, allow_non_public: bool) -> None:
    assert AddressGuard(allow_non_public).allows(address)


@pytest.mark.parametrize("address", NON_PUBLIC)
@pytest.mark.parametrize("allow_non_public", [False, True])
def test_non_public_addresses_are_refused_even_in_the_sandbox(address: str, allow_non_public: bool) -> None:
    assert not AddressGuard(allow_non_public).allows(address)


@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_may_be_dialled_in_the_sandbox_only(address: str) -> None:
    assert not AddressGuard().allows(address)
    assert AddressGuard(allow_non_public=True).allows(address)


@pytest.mark.parametrize("text", NOT_AN_ADDRESS)
@pytest.mark.parametrize("allow_non_public", [False, True])
def test_anything_that_is_not_exactly_one_address_is_refused(text: str, allow_non_public: bool) -> None:
    assert not AddressGuard(allow_non_public).allows(text)


@given(
    st.one_of(
        st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(1 << 125, (1 << 126) - 1).map(IPv6Address)
    )
)
def test_what_is_allowed_is_global_and_not_multicast_in_the_standard_library_too(
    address: IPv4Address | IPv6Address,
) -> None:
    if AddressGuard().allows(str(address)):
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_an_ipv4_address_and_its_mapped_form_are_judged_alike(address: IPv4Address) -> None:
    guard = AddressGuard()
    assert guard.allows(str(address)) == guard.allows(str(ip_address(f"::ffff:{address}")))


def test_what_is_denied_beside_is_refused_and_opens_nothing_else() -> None:
    guard = AddressGuard(denied=["8.8.8.8", "10.1.2.3", "9.9.9.7/24", "2606:4700::1111"])
    assert [
        one for one in ("8.8.8.8", "::ffff:8.8.8.8", "9.9.9.9", "2606:4700::1111") if guard.allows(one)
    ] == []
    assert all(map(guard.allows, ("8.8.8.7", "8.8.8.9", "9.9.8.255", "9.9.10.0", "2606:4700::1112")))
    assert not any(map(guard.allows, ("10.0.0.1", "10.1.2.2", "10.1.2.4", "10.255.255.255")))


def test_loopback_is_denied_by_name_even_where_it_may_be_dialled() -> None:
    guard = AddressGuard(allow_non_public=True, denied=["127.0.0.1", "::1"])
    assert [guard.allows(one) for one in ("127.0.0.1", "127.0.0.2", "::1")] == [False, True, False]


def test_a_denied_address_that_is_none_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="example"):
        AddressGuard(denied=["example.com"])
