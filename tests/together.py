"""Which tests share a process: those of one file, or of a folder whose servers cannot run twice at a time."""

from __future__ import annotations

import pytest

_ALONE = "tests/mta"  # one name server at port 53, one spool


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the group for xdist's `--dist=loadgroup`."""
    file = item.nodeid.partition("::")[0]
    item.add_marker(pytest.mark.xdist_group(_ALONE if file.startswith(_ALONE) else file))
