"""compose.yaml: well-formed, hardened, and nothing of it can be reached but the front."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.support.deploy_files import DEPLOY, OURS, compose

SERVICES: dict[str, Any] = compose()["services"]
ONE_SHOT = {"migrate"}


def test_it_follows_the_compose_specification() -> None:
    judge = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*judge, DEPLOY / "compose.yaml"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    planted = json.dumps({"services": {"api": {"image": "x", "read_onyl": True}}})
    refused = subprocess.run([*judge, "-"], check=False, capture_output=True, text=True, input=planted)
    assert refused.returncode == 1, "the judge does not judge"


def test_everything_that_was_promised_is_there() -> None:
    assert set(SERVICES) == {
        *("front", "api", "worker", "sweeper", "migrate", "postgres", "valkey", "unbound"),
        *("prometheus", "grafana"),
    }


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_do_nothing_it_does_not_need(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service.get("cap_add", ())) <= ({"NET_BIND_SERVICE"} if name == "front" else set())
    assert not {"privileged", "pid", "ipc", "network_mode", "devices"} & set(service)
    assert [volume for volume in service.get("volumes", ()) if "docker.sock" in volume] == []


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_ours_or_has_a_version(name: str) -> None:
    service = SERVICES[name]
    if "build" in service:
        assert service["build"]["dockerfile"] == "deploy/Dockerfile"
        assert (DEPLOY / service["build"]["context"]).resolve() == DEPLOY.parent
    else:
        assert re.fullmatch(r"[a-z/]+:v?\d[\w.-]*", service["image"])


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_a_service_that_stays_is_watched_and_started_again(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


def test_nobody_waits_for_what_never_comes() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            condition = how["condition"]
            if condition == "service_completed_successfully":
                assert needed in ONE_SHOT, (name, needed)
            else:
                assert condition == "service_healthy", (name, needed)
                assert "test" in SERVICES[needed]["healthcheck"], (name, needed)


def test_only_the_front_is_published_to_others() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published.pop("front") == ["80:80", "443:443", "443:443/udp"]
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_the_servers_stand_where_no_way_leads_out() -> None:
    networks = compose()["networks"]
    assert networks["inside"]["internal"] is True
    assert networks["front"]["internal"] is True
    for server in ("postgres", "valkey", "prometheus"):
        assert SERVICES[server]["networks"] == ["inside"], server
    assert "inside" not in SERVICES["front"]["networks"]


@pytest.mark.parametrize("name", OURS)
def test_secrets_are_files_and_never_variables(name: str) -> None:
    service = SERVICES[name]
    assert set(service["secrets"]) == {
        *("mailsift_database_url", "mailsift_redis_url", "mailsift_key_peppers", "mailsift_secret_keys")
    }
    assert service["environment"]["MAILSIFT_SECRETS_DIR"] == "/run/secrets"
    secret = {"MAILSIFT_DATABASE_URL", "MAILSIFT_REDIS_URL", "MAILSIFT_KEY_PEPPERS", "MAILSIFT_SECRET_KEYS"}
    assert not secret & set(service["environment"])


def test_a_worker_has_time_to_give_its_work_back_and_room_for_its_sockets() -> None:
    worker = SERVICES["worker"]
    assert int(worker["stop_grace_period"].removesuffix("s")) >= 60
    assert worker["ulimits"]["nofile"] == {"soft": 65_536, "hard": 65_536}


def test_every_file_that_is_mounted_is_there_and_every_volume_declared() -> None:
    declared = set(compose()["volumes"])
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source, _, rest = volume.partition(":")
            if source.startswith("."):
                assert (DEPLOY / source).exists(), (name, source)
                assert rest.endswith(":ro"), (name, volume)
            else:
                assert source in declared, (name, source)
    made = {entry["file"] for entry in compose()["secrets"].values()}
    script = (DEPLOY / "make-secrets").read_text()
    assert [file for file in made if f"write {file.rpartition('/')[2]} " not in script] == []


def test_valkey_forgets_nothing_by_itself() -> None:
    assert SERVICES["valkey"]["command"][-1] == "/etc/valkey/valkey.conf"
    lines = [line for line in (DEPLOY / "valkey/valkey.conf").read_text().splitlines() if line[:1] != "#"]
    options = dict(line.split(maxsplit=1) for line in lines if line)
    assert (options["appendonly"], options["appendfsync"]) == ("yes", "everysec")
    assert options["maxmemory-policy"] == "noeviction"
    assert options["aclfile"] == "/run/secrets/valkey_acl"
