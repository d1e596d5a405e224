"""Tests say by a mark what they need of a machine; where it is missing they are left out, loudly.

With MAILSIFT_REQUIRE_JUDGES=1 nothing is left out: a test that lacks something fails.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

POSTGRES_BIN = Path("/usr/lib/postgresql/15/bin")
GENERATORS = Path(os.environ.get("MAILSIFT_GENERATORS", Path.home() / ".cache/mailsift-generators"))  # noqa: TID251 - no setting of the product
DATA_ENGINES = Path(os.environ.get("MAILSIFT_DATA_ENGINES", Path.home() / ".cache/mailsift-data-engines"))  # noqa: TID251 - no setting of the product
MAIL_SERVERS = Path(os.environ.get("MAILSIFT_MTAS", "/opt/mailsift-mtas"))  # noqa: TID251 - no setting of the product
OTHER_CLIENTS = Path(os.environ.get("MAILSIFT_OTHER_CLIENTS", "/opt/mailsift-other-clients"))  # noqa: TID251 - same
STORES = Path(os.environ.get("MAILSIFT_STORES", Path.home() / ".cache/mailsift-stores"))  # noqa: TID251 - same
_REQUIRED = os.environ.get("MAILSIFT_REQUIRE_JUDGES") == "1"  # noqa: TID251 - no setting of the product
_LEFT_OUT = pytest.StashKey[dict[str, int]]()
_REPORTED = "left_out"
_AS_WELL = {"chromium": ("chromium-headless-shell",)}
_WHERE = {
    "root": "run the tests as root",
    "mail-servers": "run .ci/install-mail-servers (it installs nothing on the system) and the tests as root",
    "name-servers": "run .ci/install-mail-servers anew, and the tests as root",
    "generators": "run .ci/install-generators (nothing lands on the system); it needs npm",
    "other-clients": "run .ci/install-other-clients (it has a folder of its own) and the tests as root",
    "stores": "run .ci/install-stores (it has a folder of its own); it needs npm",
    "data-engines": "run .ci/install-data-engines (an environment of its own; nothing else changes)",
    "postgresql": "apt-get install postgresql-15",
    "redis-server": "apt-get install redis-server",
    "unbound": "apt-get install unbound dns-root-data",
    "unbound-checkconf": "apt-get install unbound dns-root-data",
    "ip": "apt-get install iproute2",
    "nft": "apt-get install nftables",
    "systemd-analyze": "apt-get install systemd",
    "promtool": "apt-get install prometheus",
    "soffice": "apt-get install libreoffice-calc-nogui",
}

_FILES = {
    "mail-servers": MAIL_SERVERS / ".ready",
    "name-servers": MAIL_SERVERS / "usr/sbin/named",
    "other-clients": OTHER_CLIENTS / ".ready",
    "generators": GENERATORS / ".ready",
    "data-engines": DATA_ENGINES / ".ready",
    "stores": STORES / ".ready",
    "postgresql": POSTGRES_BIN / "postgres",
}
_AS_ROOT = ("mail-servers", "name-servers", "other-clients")


def is_missing(need: str) -> bool:
    """Say whether a program (or one of `_WHERE`'s keys that is none) is not to be had here."""
    if need == "root":
        return os.geteuid() != 0
    if need in _FILES:
        return not _FILES[need].exists() or (need in _AS_ROOT and is_missing("root"))
    return not any(shutil.which(one) for one in (need, *_AS_WELL.get(need, ())))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*programs): judges and servers a test cannot do without")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here, unless everything is required."""
    if _REQUIRED:
        return
    lacking = {item: lacks for item in items if (lacks := _missing(item))}
    counts = Counter(need for lacks in lacking.values() for need in lacks)
    config.stash[_LEFT_OUT] = counts
    if hasattr(config, "workeroutput"):  # a process of several; who speaks for all of them collects nothing
        config.workeroutput[_REPORTED] = dict(counts)
    config.hook.pytest_deselected(items=list(lacking))
    items[:] = [item for item in items if item not in lacking]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if lacks := _missing(item):
        pytest.fail(f"MAILSIFT_REQUIRE_JUDGES=1, and here is no {', '.join(lacks)}")


def pytest_testnodedown(node: object) -> None:
    """Take over what a process of ours has left out; they all leave out the same."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]  # xdist has no types
    config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get(_REPORTED, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what was left out."""
    left_out = config.stash.get(_LEFT_OUT, {})
    if left_out:
        terminalreporter.section("NOT TESTED: what is missing here", sep="!", red=True, bold=True)
    for need, count in sorted(left_out.items()):
        hint = _WHERE.get(need, f"apt-get install {need}")
        terminalreporter.line(f"{need}: {count} tests were left out; {hint}")


def _missing(item: pytest.Item) -> list[str]:
    needs = [need for mark in item.iter_markers("needs") for need in mark.args]
    return sorted({need for need in needs if is_missing(need)})
