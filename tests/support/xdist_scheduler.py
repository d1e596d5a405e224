"""Which tests share a process: those of one file, or of a folder whose servers are not to run twice."""

from __future__ import annotations

from typing import Final

import pytest
from typing_extensions import override
from xdist.scheduler import LoadScopeScheduling

_TOGETHER: Final = (
    "tests/external/clients/",  # the clients are made once
    "tests/external/mta/",  # one name server at port 53, one spool
)


class ByServers(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives out whole files, so that what a file has started serves all its tests."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        together = (folder for folder in _TOGETHER if nodeid.startswith(folder))
        return next(together, nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Be asked by xdist, whatever `--dist` says."""
    return ByServers(config, log)
