"""The rules for nftables in docs/operations.md hold back one user, and nobody and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.deploy_files import DEPLOY

pytestmark = pytest.mark.needs("root", "ip", "nft")

OURS, OTHERS = 54_321, 54_322
"""Users; the rules are for the first of them."""
HERE, THERE = ("10.213.77.1", "3ffe::1"), ("10.213.77.2", "3ffe::2")
MUCH = 1 << 19
# Closes as soon as the kernel has the answer: what its peer has not taken by then is no user's any more.
SERVER = f"""
import os, socket, sys
with socket.create_server(("::", int(sys.argv[2])), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    os.setuid(int(sys.argv[1]))
    print("ready", flush=True)
    while True:
        taken, _ = server.accept()
        with taken:
            taken.sendall(bytes({MUCH}))
"""
CLIENT = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
with socket.socket(socket.AF_INET6) as client:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    client.settimeout(5)
    try:
        client.connect((sys.argv[3], int(sys.argv[2])))
        print(sum(map(len, iter(lambda: client.recv(1 << 12), b""))))
    except OSError as error:
        print(type(error).__name__)
"""


class TwoMachines:
    """Two network namespaces and a wire between them; the first has the rules."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._names = tuple(f"mailsift-wall-{os.getpid()}-{place}" for place in (1, 2))
        for name in self._names:
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name)
        first, second = self._names
        peer = ("type", "veth", "peer", "name", "wire", "netns", second)
        _run("ip", "-netns", first, "link", "add", "wire", *peer)
        for name, (four, six) in zip(self._names, (HERE, THERE), strict=True):
            _run("ip", "-netns", name, "address", "add", f"{four}/24", "dev", "wire")
            _run("ip", "-netns", name, "address", "add", f"{six}/64", "dev", "wire", "nodad")
            for link in ("lo", "wire"):  # what is rejected is told over the first
                _run("ip", "-netns", name, "link", "set", link, "up")
        _run("ip", "netns", "exec", first, "nft", "-f", "-", given=_rules().replace('"mailsift"', str(OURS)))

    def serve(self, place: int, user: int, port: int) -> None:
        command = self._python(place, SERVER, user, port)
        server = self._stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        self._stack.callback(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"

    def ask(self, place: int, user: int, port: int, address: str) -> str:
        """Return how many bytes came, or what happened instead."""
        return _run(*self._python(place, CLIENT, user, port), address).strip()

    def _python(self, place: int, code: str, user: int, port: int) -> list[str]:
        within = ["ip", "netns", "exec", self._names[place - 1]]
        return [*within, sys.executable, "-c", code, str(user), str(port)]


def _rules() -> str:
    guide = (DEPLOY.parent / "docs/operations.md").read_text()
    found = re.search(r"^table inet mailsift .*?^}", guide, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def _run(*words: str, given: str = "") -> str:
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def machines() -> Iterator[TwoMachines]:
    with ExitStack() as stack:
        yield TwoMachines(stack)


@pytest.mark.parametrize("address", [f"::ffff:{HERE[0]}", HERE[1]])
@pytest.mark.parametrize("user", [OURS, OTHERS])
def test_what_is_asked_of_the_machine_is_answered_whole(
    machines: TwoMachines, user: int, address: str
) -> None:
    """By the API to a front end on another machine, and by everybody else's programs."""
    machines.serve(1, user, 8025)
    assert machines.ask(2, OTHERS, 8025, address) == str(MUCH)


def test_one_user_reaches_nothing_inside_and_others_do(machines: TwoMachines) -> None:
    machines.serve(2, OTHERS, 25)
    machines.serve(2, OTHERS, 5432)
    inside, outside = f"::ffff:{THERE[0]}", THERE[1]
    assert machines.ask(1, OURS, 25, outside) == str(MUCH)
    assert machines.ask(1, OURS, 25, inside) == "ConnectionRefusedError"
    assert machines.ask(1, OURS, 5432, inside) == "ConnectionRefusedError"
    assert machines.ask(1, OURS, 5432, outside) == "ConnectionRefusedError"
    assert machines.ask(1, OTHERS, 25, inside) == str(MUCH)
