"""What deploy/ says of Mailsift is true: every setting, command and port is there, everywhere the same."""

from __future__ import annotations

import re
import shlex
import subprocess
from ipaddress import IPv6Network
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr

from mailsift.accounts.keys import read_peppers
from mailsift.cli import COMMANDS
from mailsift.key_files import open_vault
from mailsift.pipeline.guard import DENIED_V4, DENIED_V6, LOOPBACK_V4, UNICAST_V6
from mailsift.settings import Settings
from tests.support.deploy_files import (
    DEPLOY,
    OURS,
    compose,
    example_settings,
    image_environment,
    manifests,
    service_environment,
    texts,
)

KNOWN = {name for name, _, _ in Settings.describe()}
API_PORT, METRICS_PORT = "8025", "9125"


def test_every_setting_that_is_named_exists() -> None:
    named = {
        (file, name.rstrip("_"))
        for file, text in texts().items()
        for name in re.findall(r"\bMAILSIFT_[A-Z_]+", text)
    }
    assert len(named) > 20
    assert {(file, name) for file, name in named if name not in KNOWN} == set()


def test_every_secret_that_is_named_exists() -> None:
    secrets = {name for text in texts().values() for name in re.findall(r"\bmailsift_[a-z_]+", text)}
    allowed = {name.lower() for name in KNOWN} | {"mailsift_api", "mailsift_chunk_oldest_ready_seconds"}
    own = {
        name
        for file, text in texts().items()
        if "grafana" in file or "alerts" in file
        for name in re.findall(r"\bmailsift_[a-z_]+", text)
    }
    assert secrets - allowed - own == set()


def test_every_command_that_is_started_exists() -> None:
    started = {compose()["services"][name]["command"][0] for name in OURS}
    for _, document in manifests():
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            started |= set(container.get("args", ())[:1])
    for file, text in texts().items():
        if file.startswith("systemd/"):
            started |= set(re.findall(r"^ExecStart=\S+/mailsift (\w+)", text, re.MULTILINE))
    assert started == {"api", "worker", "sweeper", "migrate"}
    assert started <= set(COMMANDS)


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_told_what_the_settings_take(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets_in(tmp_path)
    environment = {**service_environment(name), "MAILSIFT_SECRETS_DIR": str(tmp_path / "secrets")}
    for variable in KNOWN & set(environment):
        monkeypatch.setenv(variable, environment[variable])
    settings = Settings.from_env()
    assert settings.database_url is not None
    assert settings.redis_url is not None
    assert settings.dns_servers == ("172.30.53.53:5353",)
    assert settings.metrics_port == int(METRICS_PORT)


def secrets_in(folder: Path) -> Path:
    subprocess.run([DEPLOY / "make-secrets", folder / "secrets"], check=True, capture_output=True)
    return folder / "secrets"


def test_the_secrets_that_are_made_are_good_ones_and_never_made_twice(tmp_path: Path) -> None:
    made = secrets_in(tmp_path)
    secrets = {path.name: path.read_text().strip() for path in made.iterdir()}
    assert set(secrets) == {Path(entry["file"]).name for entry in compose()["secrets"].values()}
    assert read_peppers(secrets["mailsift_key_peppers"])
    open_vault(Settings(home=tmp_path, secret_keys=SecretStr(secrets["mailsift_secret_keys"])))
    assert secrets["postgres_password"] in secrets["mailsift_database_url"]
    assert made.stat().st_mode & 0o777 == 0o700
    again = subprocess.run([DEPLOY / "make-secrets", made], check=False, capture_output=True)
    assert again.returncode == 1
    assert {path.name: path.read_text().strip() for path in made.iterdir()} == secrets


def test_a_folder_for_secrets_that_is_there_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets").chmod(0o755)
    assert secrets_in(tmp_path).stat().st_mode & 0o777 == 0o700


def test_the_ports_agree() -> None:
    services = compose()["services"]
    assert image_environment()["MAILSIFT_API_PORT"] == API_PORT
    assert image_environment()["MAILSIFT_METRICS_PORT"] == METRICS_PORT
    assert services["api"]["environment"]["MAILSIFT_API_PORT"] == API_PORT
    everything = texts()
    assert f"{{$UPSTREAM:api:{API_PORT}}}" in everything["caddy/Caddyfile"]
    assert f"server 127.0.0.1:{API_PORT};" in everything["nginx/mailsift.conf"]
    assert f"--port {API_PORT}" in everything["systemd/mailsift-api.service"]
    assert f"containerPort: {API_PORT}" in everything["kubernetes/api.yaml"]
    scraped = yaml.safe_load(everything["prometheus/prometheus.yml"])["scrape_configs"]
    ports = {str(one["port"]) for job in scraped for one in job.get("dns_sd_configs", ())}
    assert ports == {METRICS_PORT}
    assert {name for job in scraped for one in job.get("dns_sd_configs", ()) for name in one["names"]} == {
        *("api", "worker", "sweeper")
    }
    annotated = re.findall(r'prometheus\.io/port: "(\d+)"', "".join(everything.values()))
    assert annotated == [METRICS_PORT] * 3
    assert "port 6379" in everything["valkey/valkey.conf"]
    assert "interface: 0.0.0.0@5353" in everything["unbound/unbound.conf"]
    for name in ("api", "worker", "sweeper"):
        (port,) = re.findall(r"127\.0\.0\.1:(\d+)/", shlex.join(services[name]["healthcheck"]["test"]))
        assert port in {API_PORT, METRICS_PORT}


def test_the_front_takes_what_the_application_takes() -> None:
    most = Settings(home=Path("/nowhere")).max_bytes + 64 * 1024
    nginx = re.search(r"client_max_body_size (\d+)m;", texts()["nginx/mailsift.conf"])
    caddy = re.search(r"max_size (\d+)MiB", texts()["caddy/Caddyfile"])
    assert nginx is not None
    assert caddy is not None
    assert nginx[1] == caddy[1]
    assert most <= int(nginx[1]) * 1024**2 < most + 2 * 1024**2


@pytest.mark.parametrize(
    "file",
    [
        *(f"deploy/systemd/mailsift-{name}.service" for name in ("api", "worker", "sweeper")),
        *("deploy/kubernetes/network.yaml", "docs/operations.md"),
    ],
)
def test_a_second_wall_holds_back_what_the_guard_refuses(file: str) -> None:
    """Loopback is left to where the servers are; beyond the one network that is in use, IPv6 has no other."""
    held = set(re.findall(r"[0-9a-f]*[.:][0-9a-f.:]*/\d+", (DEPLOY.parent / file).read_text()))
    assert {*map(str, {*DENIED_V4, *DENIED_V6} - {LOOPBACK_V4})} - held == set()
    assert str(UNICAST_V6) in held or {*map(str, IPv6Network("::/0").address_exclude(UNICAST_V6))} <= held


def test_the_example_says_who_we_are() -> None:
    assert {"MAILSIFT_HELO_NAME", "MAILSIFT_MAIL_FROM", "MAILSIFT_PUBLIC_URL"} <= set(example_settings())
