"""The configuration of the servers beside Mailsift: each is read by the server it is for."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from mailsift.runtime.api_server import RequestLimits
from tests.support.deploy_files import DEPLOY
from tests.support.ports import free_port
from tests.support.reverse_proxies import FRONTS, NAME, nginx_config, write_certificate


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.needs("nginx")
def test_nginx_takes_its_front(tmp_path: Path) -> None:
    write_certificate(tmp_path, "mailsift.example.com")
    config = nginx_config(tmp_path, http=8080, https=8443, upstream=8025)
    done = run(["nginx", "-t", "-c", config])
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("caddy")
def test_caddy_takes_its_front() -> None:
    given = DEPLOY / "caddy/Caddyfile"
    done = run(["caddy", "validate", "--adapter", "caddyfile", "--config", given])
    assert done.returncode == 0, done.stderr
    assert run(["caddy", "fmt", given]).stdout == given.read_text()


@pytest.mark.needs("caddy")
def test_the_fronts_let_go_of_an_idle_connection_before_the_api_does() -> None:
    """One that the API closes may be the one that the next request is on its way through: a 502."""
    nginx = (DEPLOY / "nginx/mailsift.conf").read_text()
    upstream = re.search(r"upstream mailsift_api {(.*?)}", nginx, re.DOTALL)
    assert upstream
    kept = re.search(r"keepalive_timeout ([0-9]+)s;", upstream[1])
    done = run(["caddy", "adapt", "--adapter", "caddyfile", "--config", DEPLOY / "caddy/Caddyfile"])
    caddy = re.search(r'"keep_alive": {"idle_timeout": ([0-9]+)}', json.dumps(json.loads(done.stdout)))
    assert kept, "nginx's own is 60 seconds"
    assert caddy, "Caddy's own is two minutes"
    assert max(int(kept[1]), int(caddy[1]) / 1e9) + 10 <= RequestLimits().idle_seconds


def _logged(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*.log"))


@pytest.mark.needs("nginx", "caddy")
@pytest.mark.parametrize("front", FRONTS)
async def test_no_log_of_a_front_has_a_key_or_an_address_while_the_api_is_away(
    front: str, tmp_path: Path
) -> None:
    """Of each request that fails they tell all there is, if nobody keeps them from it."""
    with FRONTS[front](tmp_path, free_port()) as running:
        async with httpx.AsyncClient(verify=running.trust) as client:
            answer = await client.get(
                f"https://127.0.0.1:{running.https}/v2/verify?apikey=canary1&email=canary2",
                headers={"Host": NAME, "X-RB-Key": "canary3", "X-Api-Key": "canary4"},
                extensions={"sni_hostname": NAME},
            )
    assert answer.status_code == 502
    logged = _logged(tmp_path)
    assert "/v2/verify" in logged
    assert re.findall("canary.", logged) == []


@pytest.mark.needs("unbound-checkconf")
def test_unbound_takes_its_configuration(tmp_path: Path) -> None:
    text = (DEPLOY / "unbound/unbound.conf").read_text()
    # Both come with the package dns-root-data, which the image has; here only the rest is looked at.
    (tmp_path / "root.hints").write_text(". 3600000 NS a.root-servers.net.\n")
    (tmp_path / "root.key").write_text(
        ". IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D\n"
    )
    given = tmp_path / "unbound.conf"
    given.write_text(text.replace("/usr/share/dns", str(tmp_path)))
    done = run(["unbound-checkconf", given])
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("promtool")
def test_prometheus_takes_its_configuration() -> None:
    done = run(["promtool", "check", "config", DEPLOY / "prometheus/prometheus.yml"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout
