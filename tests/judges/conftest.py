"""The house that is judged; a judge that is not installed is told of loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sandbox.client import SandboxProcess
from tests.installation import settings_for
from tests.judges.house import House, open_house
from tests.servers import Urls

ACCOUNTS = ("alice", "bob", "carol", "dave")


@pytest.fixture(scope="module")
def house(shared_servers: Callable[[], Urls], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """An installation with these accounts, in a world where greylisting lasts."""
    home = tmp_path_factory.mktemp("house")
    with SandboxProcess(domains=20, greylist_seconds=600) as sandbox:
        settings = settings_for(
            home,
            **shared_servers()._asdict(),
            sandbox=sandbox.env,
            greylist_delays=(600.0,),
            api_port=0,
            requests_per_minute=10_000_000,
        )
        with open_house(settings, *ACCOUNTS) as running:
            yield running
