"""A network namespace with nothing but loopback, whose resolver is whoever listens on 127.0.0.1:53 in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RESOLVERS = Path("/etc/netns")  # `ip netns exec` puts NAME/resolv.conf over /etc/resolv.conf


class NamespaceError(Exception):
    """No namespace can be made; the message says what is missing."""


@contextmanager
def namespace() -> Iterator[list[str]]:
    """Make one and remove it at the end.

    Yields:
        What to put in front of a command so that it runs inside.

    Raises:
        NamespaceError: not root, no iproute2, or the kernel refuses.
    """
    if os.geteuid() != 0:
        raise NamespaceError("a network namespace takes root.")
    if shutil.which("ip") is None:
        raise NamespaceError("`ip` is missing; Debian has it in iproute2.")
    name = f"ms-peers-{os.getpid()}"
    settings = _RESOLVERS / name
    try:
        _ip("netns", "add", name)
        _ip("-netns", name, "link", "set", "lo", "up")
        settings.mkdir(parents=True)
        (settings / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        yield ["ip", "netns", "exec", name]
    finally:
        shutil.rmtree(settings, ignore_errors=True)
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise NamespaceError(f"`ip {' '.join(arguments)}` says: {done.stderr.strip()}")
