"""The installation that is judged; a judge that is not installed is told of loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mailsift.sandbox.client import SandboxProcess
from tests.external.judges.judged_installation import JudgedInstallation, judged_installation
from tests.support.installation import settings_for
from tests.support.servers import Urls

ACCOUNTS = ("alice", "bob", "carol", "dave")


@pytest.fixture(scope="module")
def judged(
    shared_servers: Callable[[], Urls], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JudgedInstallation]:
    """An installation with these accounts, in a world where greylisting lasts."""
    home = tmp_path_factory.mktemp("judged")
    with SandboxProcess(domains=20, greylist_seconds=600) as sandbox:
        settings = settings_for(
            home,
            **shared_servers()._asdict(),
            sandbox=sandbox.env,
            greylist_delays=(600.0,),
            api_port=0,
            requests_per_minute=10_000_000,
        )
        with judged_installation(settings, *ACCOUNTS) as running:
            yield running
