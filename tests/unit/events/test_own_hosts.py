"""Webhooks to ourselves are refused, at registration and where the socket is opened."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from mailsift.container import open_container
from mailsift.events.retry import ErrorClass
from mailsift.events.sender import SendConfig, WebhookSender
from mailsift.events.webhook_url import is_this_machine, split_hosts
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import AddressGuard
from mailsift.settings import Settings
from tests.support.installation import settings_for
from tests.support.receiver import receiving

NOBODY_TRUSTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading whom the system trusts takes long


def sender(*own: str, answers: Sequence[str] = ()) -> WebhookSender:
    names, addresses = split_hosts(own)

    async def resolve(_name: str) -> Sequence[str]:
        return answers

    return WebhookSender(
        guard=AddressGuard(allow_non_public=True, denied=addresses),
        resolve=resolve,
        config=SendConfig(allow_http=True),
        ssl_context=NOBODY_TRUSTED,
        own_names=names,
    )


def test_names_and_addresses_are_told_apart() -> None:
    names, addresses = split_hosts(
        ["Mail.Example.com", "bücher.example", "192.0.2.7", "2001:DB8::1", "198.51.100.9/24"]
    )
    assert names == {"mail.example.com", "xn--bcher-kva.example"}
    assert addresses == ("192.0.2.7/32", "2001:db8::1/128", "198.51.100.0/24")


@pytest.mark.parametrize("host", ["https://example.com", "a b", "example.com:443", "[::1]", "", "a..b"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="expected names and addresses"):
        split_hosts([host])
    with pytest.raises(ValidationError):
        Settings(own_hosts=(host,))


@pytest.mark.parametrize("own", ["127.0.0.1", "127.0.0.0/8"])
async def test_an_own_address_is_refused_at_registration_and_never_dialled(own: str) -> None:
    async with receiving() as ourselves:
        guarded = sender(own, answers=["127.0.0.1"])
        with pytest.raises(MailsiftError, match="webhook_url_blocked"):
            guarded.check(ourselves.url)
        assert (await guarded.post(ourselves.url, {}, b"{}")).error is ErrorClass.BLOCKED
        named = guarded.check(f"http://innocent.example.com:{ourselves.port}/")
        assert (await guarded.post(named, {}, b"{}")).error is ErrorClass.BLOCKED
        assert (await sender(answers=["127.0.0.1"]).post(named, {}, b"{}")).error is ErrorClass.NONE
    assert ourselves.connections == 1


async def test_an_own_name_is_refused_at_registration_and_never_dialled() -> None:
    async with receiving() as ourselves:
        before = sender(answers=["127.0.0.1"])
        stored = before.check(f"http://MAIL.Example.com:{ourselves.port}/hook")
        guarded = sender("Mail.example.COM", answers=["127.0.0.1"])
        with pytest.raises(MailsiftError, match="webhook_url_blocked"):
            guarded.check(stored)
        assert (await guarded.post(stored, {}, b"{}")).error is ErrorClass.BLOCKED
        assert guarded.check(f"http://hooks.mail.example.com:{ourselves.port}/")
    assert ourselves.connections == 0


async def test_an_address_of_this_machine_is_refused_at_registration_and_never_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not every machine that runs the tests has an interface beside loopback: one is made up."""
    monkeypatch.setattr("mailsift.events.sender.is_this_machine", {"127.0.0.1"}.__contains__)
    async with receiving() as ourselves:
        guarded = sender(answers=["127.0.0.1"])
        with pytest.raises(MailsiftError, match="webhook_url_blocked"):
            guarded.check(ourselves.url)
        assert (await guarded.post(ourselves.url, {}, b"{}")).error is ErrorClass.BLOCKED
        named = guarded.check(f"http://innocent.example.com:{ourselves.port}/")
        assert (await guarded.post(named, {}, b"{}")).error is ErrorClass.BLOCKED
    assert ourselves.connections == 0


async def test_the_settings_reach_the_socket(tmp_path: Path) -> None:
    settings = settings_for(
        tmp_path,
        sandbox={},
        own_hosts=("mail.example.com", "8.8.8.8"),
        public_url="https://pages.example.com:8443",
    )
    async with open_container(settings) as container:
        guarded = container.sender
        for host in ("mail.example.com", "pages.example.com", "8.8.8.8"):
            with pytest.raises(MailsiftError, match="webhook_url_blocked"):
                guarded.check(f"https://{host}/hook")
        assert guarded.check("https://8.8.4.4/hook")
        assert guarded.check("https://example.com/hook")


async def test_a_page_address_on_loopback_closes_no_other_door_there(tmp_path: Path) -> None:
    settings = settings_for(
        tmp_path,
        sandbox={},
        public_url="http://127.0.0.1:8025",
        allow_non_public=True,
        webhook_allow_http=True,
    )
    async with open_container(settings) as container:
        guarded = container.sender
        assert guarded.check("http://127.0.0.1:9000/hook")


def test_the_addresses_of_this_machines_interfaces_are_known() -> None:
    found = [
        one.address.partition("%")[0]
        for interface in psutil.net_if_addrs().values()
        for one in interface
        if one.family in {socket.AF_INET, socket.AF_INET6} and "%" not in one.address
    ]
    ours = {one for one in found if not ipaddress.ip_address(one).is_loopback}
    assert {one for one in ours if not is_this_machine(one)} == set()
    others = ["8.8.8.8", "192.0.2.1", "2606:4700::1111", "example.com", "127.0.0.1", "::1", ""]
    assert [one for one in others if is_this_machine(one)] == []


@pytest.mark.parametrize(("fault", "expected"), [(errno.EAFNOSUPPORT, False), (errno.EMFILE, None)])
def test_a_machine_without_ipv6_has_no_such_address_and_one_without_sockets_cannot_say(
    monkeypatch: pytest.MonkeyPatch, fault: int, expected: bool | None
) -> None:
    def open_socket(*_: object) -> socket.socket:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(socket, "socket", open_socket)
    with nullcontext() if expected is not None else pytest.raises(OSError, match=os.strerror(fault)):
        assert is_this_machine("2606:4700::1111") is expected
