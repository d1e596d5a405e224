"""The clients, made anew from the API's description, fit it to the last type and go through its session."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mailsift.container import open_container
from mailsift.settings import Settings
from tests.external.judges.judged_installation import judged_installation
from tests.support.installation import settings_for
from tests.support.required_programs import GENERATORS
from tests.support.servers import Urls

ROOT = Path(__file__).parents[3]
NOBODY = {"MAILSIFT_DNS_SERVERS": "127.0.0.1:9", "MAILSIFT_SMTP_PORT": "9"}
RESULTS = [["Jane", "jane@example.com", "passed"], ["Joe", "joe@@example.com", "syntax_error"]]
FOUND: dict[str, Any] = {
    "suggestion": "Did you mean jane@gmail.com?",
    "one": "mailbox_full",
    "many": ["deliverable", "mailbox_not_found", "deliverable"],
    "one_job": True,
    "followed": "completed",
    "counted": [1, 1],
    "csv": ["name,email,mailsift_result", *(",".join(row) for row in RESULTS)],
    "invalid": [{"email": "joe@@example.com", "mailsift_result": "syntax_error"}],
    "pages": [["Joe", "syntax_error"], ["Jane", "passed"]],
    "one_rerun": True,
    "deleted": [404, "job_not_found"],
    "runs": 1,
    "delivered": True,
    "event": "webhook.test",
    "forged": [True, True, True],
    "events": ["bulk.validation.completed"],
    "rows_used": True,
}
"""What a session finds out, in every language."""
pytestmark = [pytest.mark.needs("generators", "node", "npm"), pytest.mark.timeout(600)]


class Service(NamedTuple):
    """A running API with a worker."""

    url: str
    settings: Settings

    def key(self, account: str) -> str:
        async def made() -> str:
            async with open_container(self.settings) as container:
                owner = await container.jobs.account(account)
                return (await container.keys.create(owner, test=True)).secret

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


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both packages, made anew."""
    out = tmp_path_factory.mktemp("clients") / "made"
    run(ROOT, sys.executable, ROOT / "clients/generate.py", out)
    return out


def run(folder: Path, *words: str | Path, **environment: str) -> str:
    """Return what a program says, which must succeed."""
    inherited = {name: os.environ.get(name, "") for name in ("PATH", "HOME")}  # noqa: TID251 - for a child
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**inherited, "npm_config_update_notifier": "false", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_client_fits_the_api_and_goes_through_its_session(
    packages: Path, service: Service, tmp_path: Path
) -> None:
    folder = packages / "python"
    mypy = (
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--cache-dir",
        tmp_path / "types",
    )
    run(folder, *mypy, "mailsift_client", "examples", MYPYPATH=".")
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ".")
    run(folder, *build)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")  # noqa: S202 - we built it
    words = (
        sys.executable,
        "-W",
        "error",
        folder / "examples/session.py",
        service.url,
        service.key("python"),
    )
    said = run(tmp_path, *words, PYTHONPATH=str(tmp_path / "installed"))
    assert json.loads(said) == FOUND


def test_the_typescript_client_fits_the_api_and_goes_through_its_session(
    packages: Path, service: Service, tmp_path: Path
) -> None:
    folder, modules = packages / "typescript", tmp_path / "node_modules"
    compiler = folder / "node_modules/.bin/tsc"
    run(folder, compiler)
    run(folder, compiler, "--project", "examples")
    run(folder, "npm", "pack", "--offline", "--silent", "--pack-destination", tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as packed:
        packed.extractall(modules, filter="data")
    (modules / "package").rename(modules / "mailsift-client")
    (modules / "openapi-fetch").symlink_to(GENERATORS / "node_modules/openapi-fetch")
    shutil.copy(folder / "examples/session.mjs", tmp_path)
    said = run(tmp_path, "node", "session.mjs", service.url, service.key("typescript"))
    assert json.loads(said) == FOUND
