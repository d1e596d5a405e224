"""The real mail servers of a test run, started when the first test asks for them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.mta import exim, opensmtpd, postfix
from tests.mta.asking import World
from tests.mta.chroot import Chroot, free_port
from tests.mta.name_server import name_server
from tests.mta.world import zone_of

_HERE = Path(__file__).parent
_ROOT = Path(os.environ.get("MAILSIFT_MTAS", "/opt/mailsift-mtas"))  # noqa: TID251 - no setting of the product
_REQUIRED = os.environ.get("MAILSIFT_REQUIRE_MTAS") == "1"  # noqa: TID251 - no setting of the product
_HINT = "run .ci/install-mail-servers (Debian or Ubuntu, as root; it installs nothing on the system)"
_LEFT_OUT = pytest.StashKey[int]()
_CHROOT = pytest.StashKey[Chroot]()


def _are_there() -> bool:
    return (_ROOT / ".ready").exists() and os.geteuid() == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out where the servers are not; the summary says so."""
    if _REQUIRED or _are_there():
        return
    left_out = [item for item in items if item.path.is_relative_to(_HERE)]
    config.stash[_LEFT_OUT] = len(left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.path.is_relative_to(_HERE)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what was left out."""
    count = config.stash.get(_LEFT_OUT, 0)
    if count:
        terminalreporter.section("NOT TESTED: real mail servers", sep="!", red=True, bold=True)
        terminalreporter.line(
            f"{count} tests against Postfix, Postgrey, Exim and OpenSMTPD were left out: {_HINT}."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a failure what the servers have logged."""
    report = yield
    chroot = item.config.stash.get(_CHROOT, None)
    if report.failed and chroot is not None:
        report.sections.append(("mail servers", chroot.logs()))
    return report


@pytest.fixture(scope="session")
def chroot(pytestconfig: pytest.Config) -> Iterator[Chroot]:
    if not _are_there():
        pytest.fail(f"no mail servers in {_ROOT}, or not root: {_HINT}")
    with Chroot(_ROOT, free_port()) as running:
        pytestconfig.stash[_CHROOT] = running
        yield running


@pytest.fixture(scope="session")
def dns(chroot: Chroot) -> Iterator[str]:
    assert chroot.home.exists()  # port 53 belongs to the run that has the folder
    tables = (postfix.SITES, exim.SITES, opensmtpd.SITES)
    with name_server(zone_of(site for table in tables for site in table.values())) as server:
        yield server


@pytest.fixture(scope="session")
def postfix_world(chroot: Chroot, dns: str) -> World:
    postfix.start_postfix(chroot)
    return World(chroot.port, dns)


@pytest.fixture(scope="session")
def exim_world(chroot: Chroot, dns: str) -> World:
    exim.start_exim(chroot)
    return World(chroot.port, dns)


@pytest.fixture(scope="session")
def opensmtpd_world(chroot: Chroot, dns: str) -> World:
    opensmtpd.start_opensmtpd(chroot)
    return World(chroot.port, dns)
