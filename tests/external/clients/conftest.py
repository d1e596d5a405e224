"""A running service, and the clients made anew."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mailsift.accounts.keys import KeyKind
from mailsift.container import open_container
from mailsift.settings import Settings
from tests.external.judges.judged_installation import judged_installation
from tests.support.installation import settings_for
from tests.support.servers import Urls

ROOT = Path(__file__).parents[3]
NOBODY = {"MAILSIFT_DNS_SERVERS": "127.0.0.1:9", "MAILSIFT_SMTP_PORT": "9"}


class Service(NamedTuple):
    """A running API with a worker."""

    url: str
    settings: Settings

    def key(self, account: str, *, test: bool = True) -> str:
        async def made() -> str:
            async with open_container(self.settings) as container:
                owner = await container.jobs.account(account)
                return (await container.keys.create(owner, kind=KeyKind(test=test))).secret

        return asyncio.run(made())


@pytest.fixture(scope="module")
def service(
    shared_servers: Callable[[], Urls], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    settings = settings_for(
        tmp_path_factory.mktemp("home"),
        **shared_servers()._asdict(),
        sandbox=NOBODY,
        api_port=0,
        allow_non_public=True,
        webhook_allow_http=True,
    )
    with judged_installation(settings) as running:
        yield Service(running.url, settings)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both packages, made anew."""
    out = tmp_path_factory.mktemp("clients") / "made"
    run(ROOT, sys.executable, ROOT / "clients/generate.py", out)
    return out


def run(folder: Path, *words: str | Path, stdin: str = "", **environment: str) -> str:
    """Return what a program says, which must succeed."""
    inherited = {name: os.environ.get(name, "") for name in ("PATH", "HOME")}  # noqa: TID251 - for a child
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**inherited, "npm_config_update_notifier": "false", **environment},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
