"""The real mail servers of a test run, started when the first test asks for them."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.external.chroot import Chroot, alone
from tests.external.mta import exim, opensmtpd, postfix, sendmail
from tests.external.mta.domains import zone_of
from tests.external.mta.name_server import name_server
from tests.external.mta.validation import World
from tests.support.ports import free_port
from tests.support.required_programs import MAIL_SERVERS

_CHROOT = pytest.StashKey[Chroot]()


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.needs("mail-servers"))


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
    with alone(MAIL_SERVERS), Chroot(MAIL_SERVERS, free_port("127.0.5.1")) as running:
        pytestconfig.stash[_CHROOT] = running
        yield running


@pytest.fixture(scope="session")
def dns(chroot: Chroot) -> Iterator[str]:
    assert chroot.home.exists()  # port 53 belongs to the run that has the folder
    tables = (postfix.SITES, exim.SITES, opensmtpd.SITES, sendmail.SITES)
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


@pytest.fixture(scope="session")
def sendmail_world(chroot: Chroot, dns: str) -> World:
    sendmail.start_sendmail(chroot)
    return World(chroot.port, dns)
