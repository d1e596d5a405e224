"""The units: systemd itself says that they are well-formed and how much they leave open."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.deploy_files import DEPLOY

UNITS = sorted((DEPLOY / "systemd").iterdir())
SERVICES = [path for path in UNITS if path.suffix == ".service"]
MOST_EXPOSED = 2.0
"""Of 10; what is left is the network."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as on a machine where everything they name is there."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/mailsift/bin/mailsift", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("/etc/mailsift/mailsift.env", "/dev/null"))
    return tmp_path


def systemd(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words], check=False, capture_output=True, text=True, timeout=60
    )


def lines(path: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", path.read_text(), re.MULTILINE)


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong(installed: Path) -> None:
    done = systemd("verify", "--man=no", *sorted(installed.iterdir()))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.stem)
def test_a_service_leaves_little_open(service: Path, installed: Path) -> None:
    limit = f"--threshold={int(MOST_EXPOSED * 10)}"
    done = systemd("security", "--offline=true", "--no-pager", limit, installed / service.name)
    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout
    bare = installed / "bare.service"
    bare.write_text("[Service]\nExecStart=/bin/true\n")
    assert systemd("security", "--offline=true", limit, bare).returncode != 0


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.stem)
def test_a_service_is_hardened_as_promised(service: Path) -> None:
    for name, value in {
        "User": "mailsift",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "CapabilityBoundingSet": "",
    }.items():
        assert lines(service, name) == [value], name
    assert "IPAddressDeny" in service.read_text()
    assert len(lines(service, "LoadCredential")) == 4
    assert "10.0.0.0/8" in " ".join(lines(service, "IPAddressDeny")) or "any" in lines(
        service, "IPAddressDeny"
    )


def test_what_stays_is_stopped_warm_with_room_for_its_sockets() -> None:
    staying = [path for path in SERVICES if lines(path, "Type") == ["exec"]]
    assert len(staying) == 3
    for service in staying:
        assert lines(service, "KillSignal") == ["SIGTERM"]
        assert lines(service, "LimitNOFILE") == ["65536"]
        assert lines(service, "Restart") == ["always"]
    (worker,) = (path for path in staying if "worker" in path.name)
    assert int(lines(worker, "TimeoutStopSec")[0].removesuffix("s")) >= 60


def test_a_database_that_comes_up_last_keeps_nothing_down() -> None:
    """All of them wait for it; what requires a unit that has failed once is not started any more."""
    (migrate,) = (path for path in SERVICES if lines(path, "Type") == ["oneshot"])
    assert lines(migrate, "Restart") == ["on-failure"]
    for service in {*SERVICES} - {migrate}:
        assert lines(service, "Requires") == []
        assert f"{migrate.name} " in f"{' '.join(lines(service, 'Wants'))} "
        assert migrate.name in lines(service, "After")[0]


def test_the_target_brings_up_everything() -> None:
    wanted: Sequence[str] = lines(DEPLOY / "systemd/mailsift.target", "Wants")[0].split()
    assert set(wanted) == {path.name for path in SERVICES} - {"mailsift-migrate.service"}


@pytest.mark.needs("systemd-analyze")
def test_a_service_that_is_enabled_alone_comes_up_when_the_machine_does(tmp_path: Path) -> None:
    """As on a machine that runs workers only: nobody else wants the target there."""
    folder = tmp_path / "etc/systemd/system"
    shutil.copytree(DEPLOY / "systemd", folder)
    done = subprocess.run(
        ["systemctl", f"--root={tmp_path}", "enable", "mailsift-worker.service"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    wanting = [link.parent.name for link in folder.glob("*.wants/*")]
    assert wanting == ["multi-user.target.wants"]
