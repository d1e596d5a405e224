"""A job whose resolver denies everything waits for it, says so, and ends with the truth once it is honest."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rrset
import polars as pl
import pytest

from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.support.commands import CommandLine
from tests.support.installation import settings_for
from tests.support.ports import one_port

SEED, DOMAINS, ROWS = 5, 200, 2_000


class Liar:
    """A resolver before the sandbox's, UDP and TCP: denies every name properly while it lies."""

    def __init__(self, server: str) -> None:
        host, _, port = server.partition(":")
        self._behind = (host, int(port))
        self.lies = True
        self._udp, self._tcp = one_port()
        self.server = f"127.0.0.1:{self._udp.getsockname()[1]}"
        self._over = False
        serves = (self._serve_udp, self._serve_tcp)
        self._threads = [threading.Thread(target=serve, daemon=True) for serve in serves]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._tcp.shutdown(socket.SHUT_RDWR)
        self._tcp.close()
        self._over = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._udp.getsockname())
        self._threads[0].join(5)
        self._udp.close()

    def _serve_udp(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as onward:
            onward.settimeout(2)
            while True:
                try:
                    query, peer = self._udp.recvfrom(4096)
                    if self._over:
                        return
                    self._udp.sendto(self._answer(query, onward), peer)
                except TimeoutError:
                    continue
                except OSError:
                    return

    def _answer(self, query: bytes, onward: socket.socket) -> bytes:
        if self.lies:
            return denial(query)
        onward.sendto(query, self._behind)
        while (reply := onward.recv(4096))[:2] != query[:2]:
            pass
        return reply

    def _serve_tcp(self) -> None:
        while True:
            try:
                talk, _ = self._tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def _talk(self, talk: socket.socket) -> None:
        with talk, talk.makefile("rb") as stream, suppress(OSError, EOFError, dns.exception.DNSException):
            while len(head := stream.read(2)) == 2:
                query = stream.read(int.from_bytes(head, "big"))
                reply = denial(query) if self.lies else self._over_tcp(query)
                talk.sendall(len(reply).to_bytes(2, "big") + reply)

    def _over_tcp(self, query: bytes) -> bytes:
        host, port = self._behind
        return dns.query.tcp(dns.message.from_wire(query), host, port=port, timeout=2).to_wire()


def denial(query: bytes) -> bytes:
    """NXDOMAIN with the SOA of the top-level domain, as it should be."""
    reply = dns.message.make_response(dns.message.from_wire(query), recursion_available=True)
    reply.set_rcode(dns.rcode.NXDOMAIN)
    zone = reply.question[0].name.to_text().rstrip(".").rpartition(".")[2]
    reply.authority.append(dns.rrset.from_text(f"{zone}.", 60, "IN", "SOA", "ns. host. 1 1 1 1 60"))
    return reply.to_wire()


@pytest.fixture
def liar() -> Iterator[Liar]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN) as sandbox:
        running = Liar(sandbox.env["MAILSIFT_DNS_SERVERS"])
        yield running
        running.close()


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str, liar: Liar) -> Settings:
    sandbox = {"MAILSIFT_DNS_SERVERS": liar.server, "MAILSIFT_ALLOW_NON_PUBLIC": "true"}
    return settings_for(tmp_path / "home", sandbox=sandbox, database_url=database_url, redis_url=redis_url)


def test_a_job_waits_for_a_resolver_that_can_be_trusted(
    settings: Settings, liar: Liar, tmp_path: Path
) -> None:
    source, out = tmp_path / "list.csv", tmp_path / "out.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN), source, rows=ROWS)
    cli = CommandLine(settings)

    checked = json.loads(cli.run("check", "ann@gmail.com", "--mode", "medium", "--json").out)
    assert (checked["status"], checked["result"]) == ("risky", "dns_unavailable")

    running = cli.start("run", source, "--output", out, "--json", "--mode", "medium")
    waits: list[str] = []
    began = time.monotonic()
    while "resolver" not in waits and time.monotonic() - began < 60:
        for line in cli.run("jobs", "list", "--json").out.splitlines():
            view = json.loads(cli.run("jobs", "show", json.loads(line)["job_id"], "--json").out)
            waits = [wait["reason"] for wait in view["waiting"]]
    assert waits == ["resolver"]

    liar.lies = False
    _, err = running.communicate(timeout=100)
    assert running.returncode == 0, err
    truth = pl.read_csv(source.with_name("list.truth.csv"), infer_schema=False)
    rows = pl.read_csv(out, infer_schema=False).hstack(truth.select("medium"))
    wrong = rows.filter(pl.col("mailsift_status") != pl.col("medium"))
    # The resolver before the sandbox asks one question at a time, so that some time out: risky, never wrong.
    assert set(wrong["mailsift_result"]) <= {"dns_unavailable"}
    assert rows["mailsift_status"].n_unique() == 3
