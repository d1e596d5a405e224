"""Which URLs may be a webhook, at registration and at every attempt: one grammar, no host of our own."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

import idna

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import AddressGuard, read_address

_LONGEST_URL = 2_048
_PORTS = {"https": 443, "http": 80}
_PUBLIC_PORTS = frozenset({443, 8443})

# Stricter than RFC 3986: no userinfo, no fragment, no backslash, nothing that parsers read differently.
_URL = re.compile(
    r"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://"  # not by IGNORECASE: an s is U+017F then, too
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\\\[\]%]+)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?"
    r"(?P<query>\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_OWN_NAME: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """Where to send: what is dialled, named and asked for is read from one parse.

    Attributes:
        host: a lower-case ASCII name, or an IP address without brackets.
        path: with the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port as URLs and the Host header write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The one spelling of this target."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_webhook_url(url: str, *, guard: AddressGuard, allow_http: bool = False) -> WebhookUrl:
    """Read a webhook URL.

    Args:
        url: as the customer gave it, or as stored.
        guard: refuses an IP address that may not be dialled.
        allow_http: for tests: also plain HTTP, and any port.

    Raises:
        MailsiftError: `webhook_url_invalid`, `webhook_url_blocked`.
    """
    found = _URL.fullmatch(url) if len(url) <= _LONGEST_URL else None
    if found is None:
        raise _invalid_url("The URL must be https://host/path, without user name, fragment or special signs.")
    scheme = found["scheme"].lower()
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not allow_http and (scheme != "https" or port not in _PUBLIC_PORTS):
        raise _invalid_url("The URL must use https and port 443 or 8443.")
    if not 0 < port < 65_536:
        raise _invalid_url("The port does not exist.")
    host = _host(found["host"])
    if read_address(host) and not guard.allows(host):
        raise not_public()
    return WebhookUrl(scheme, host, port, (found["path"] or "/") + (found["query"] or ""))


def split_hosts(hosts: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names, in the spelling of a WebhookUrl, and the addresses and networks among the hosts.

    Raises:
        ValueError: one of them is none of these.
    """
    names, networks = set[str](), list[str]()
    for host in hosts:
        try:
            networks.append(str(ip_network(host, strict=False)))
        except ValueError:
            name = name_in_ascii(host)
            if not _OWN_NAME.fullmatch(name):
                raise ValueError("expected names and addresses") from None
            names.add(name)
    return frozenset(names), tuple(networks)


def host_name_in(url: str) -> frozenset[str]:
    """Return the name in a URL; nothing when there is none, or an address."""
    try:
        return split_hosts([urlsplit(url).hostname or ""])[0]
    except ValueError:
        return frozenset()


def name_in_ascii(host: str) -> str:
    """Return a host's name as DNS and browsers write it (UTS 46), in lower case.

    Raises:
        ValueError: it has signs in it that no name can have.
    """
    return host.lower() if host.isascii() else idna.encode(host, uts46=True).decode()


def is_this_machine(host: str) -> bool:
    """Tell whether an address belongs to an interface of this machine; loopback is left to the guard.

    The kernel's route to it begins at the address itself then. It is only asked for; nothing is sent.

    Raises:
        OSError: it could not be asked.
    """
    address = read_address(host)
    if address is None or address.is_loopback:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        probe = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:  # a machine that speaks no IPv6 has no such address
            return False
        raise
    with probe:
        try:
            probe.connect((host, 9))
        except OSError:  # no route: not ours
            return False
        return read_address(probe.getsockname()[0]) == address


def _host(text: str) -> str:
    """Return the host in its one spelling; numbers in any but the usual form are refused."""
    if text.startswith("["):
        address = read_address(text[1:-1])
        if address is None:
            raise _invalid_url("The IPv6 address is malformed.")
        return str(address)
    if read_address(text):
        return text
    try:
        name = name_in_ascii(text)
    except ValueError:
        raise _invalid_url("The host name is malformed.") from None
    labels = name.split(".")
    is_name = len(name) <= 253 and len(labels) > 1 and all(map(_LABEL.fullmatch, labels))
    if not is_name or _NUMBER.fullmatch(labels[-1]):
        raise _invalid_url("The host must be a full domain name.")
    return name


def not_public() -> MailsiftError:
    """Return the error of an address that may not be dialled."""
    return MailsiftError("webhook_url_blocked", "This address isn’t on the public internet.")


def _invalid_url(text: str) -> MailsiftError:
    return MailsiftError("webhook_url_invalid", text)
