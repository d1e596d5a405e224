"""The sandbox as a process of its own, and its commands."""

from __future__ import annotations

import csv
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import dns.message
import dns.query
import pytest
from typer.testing import CliRunner

from mailsift.sandbox.behaviours import BEHAVIOURS
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.server import sandbox_app
from mailsift.sandbox.world import SandboxWorld

ROOT = Path(__file__).parents[3]

PARENT = """
import os, sys
from mailsift.sandbox.client import SandboxProcess
sandbox = SandboxProcess(domains=10)
sandbox.start()
print(sandbox.dns_port, sandbox.smtp_port, sandbox.pid, flush=True)
sys.stdin.read()
"""


def test_a_sandbox_process_serves_counts_and_resets() -> None:
    world = SandboxWorld(domains=20)
    with SandboxProcess(domains=20) as sandbox:
        assert sandbox.env == {
            "MAILSIFT_DNS_SERVERS": f"127.0.0.1:{sandbox.dns_port}",
            "MAILSIFT_SMTP_PORT": str(sandbox.smtp_port),
            "MAILSIFT_ALLOW_NON_PUBLIC": "true",
        }
        query = dns.message.make_query("gmail.com", "MX")
        assert dns.query.udp(query, "127.0.0.1", 5, sandbox.dns_port).answer
        address = world.hosts["gmail-smtp-in.l.google.com"].address
        with socket.create_connection((address, sandbox.smtp_port), timeout=5) as client:
            assert client.recv(100).startswith(b"220 mx.google.com ESMTP ")
            assert sandbox.counters()["peak_sessions_by_provider"] == {"google": 1}
        assert sandbox.counters()["dns"] == {"MX": 1}
        sandbox.reset()
        assert sandbox.counters()["dns_queries"] == 0


def test_an_unknown_request_at_the_control_port_is_an_error_and_not_the_end() -> None:
    with SandboxProcess(domains=1) as sandbox:
        for request, error in ((b'{"op": "dance"}\n', "unknown op"), (b"rubbish\n", "not JSON")):
            with socket.create_connection(("127.0.0.1", sandbox.control_port), timeout=5) as control:
                control.sendall(request)
                assert json.loads(control.makefile("rb").readline()) == {"error": error}
        assert sandbox.counters()["connections"] == 0


def test_a_sandbox_dies_with_its_parent_even_when_that_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline().split()[2])
    watch = os.pidfd_open(pid)
    parent.kill()
    parent.communicate()
    ready, _, _ = select.select([watch], [], [], 10)
    os.close(watch)
    assert ready, "the sandbox is still there"


def test_two_sandboxes_cannot_share_a_port() -> None:
    with SandboxProcess(domains=1) as first, pytest.raises(RuntimeError, match="did not start"):
        SandboxProcess(domains=1, smtp_port=first.smtp_port).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_cleanly_when_it_is_told_to(number: signal.Signals) -> None:
    arguments = [sys.executable, "-m", "mailsift.sandbox", "serve", "--domains=1", "--smtp-port=0"]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["smtp_port"] > 0
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, b"")


def test_the_list_command_writes_a_list_and_its_truth(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    result = CliRunner().invoke(
        sandbox_app, ["list", "--rows", "200", "--domains", "30", "--output", str(path)]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == {
        "rows": 200, "list": str(path), "truth": str(tmp_path / "people.truth.csv"),
    }  # fmt: skip
    with (tmp_path / "people.truth.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 201


def test_the_scenarios_command_prints_every_scenario() -> None:
    lines = CliRunner().invoke(sandbox_app, ["scenarios"]).output.splitlines()
    assert [line.split()[0] for line in lines] == [behaviour.domain for behaviour in BEHAVIOURS]
    assert "nxdomain.sandbox.test                    invalid  domain_not_found" in lines
