"""What an installation keeps is for the user who runs it: other users of the machine find nothing to read."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from tests.support.child_processes import environment_for
from tests.support.leftovers import places_below
from tests.support.serving import address
from tests.support.workers import ROOT

pytestmark = pytest.mark.needs("root")

# Opens what it is named as `nobody`, and names what it could open.
_READER = """
import json, os, socket, stat, sys
paths = json.load(sys.stdin)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
def opens(path):
    try:
        if path.endswith((".sock", ".s.PGSQL.5432")):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
        elif os.path.isdir(path):
            os.listdir(path)
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except PermissionError:
        return False
    return True
json.dump([path for path in paths if opens(path)], sys.stdout)
"""


def opened_by_others(paths: Sequence[Path]) -> list[str]:
    """Return the folders, files and sockets that another user can list, read or connect to."""
    reader = subprocess.run(
        [sys.executable, "-c", _READER],
        input=json.dumps([str(path) for path in paths]),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(reader.stdout)
    return found


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that an operator made for everybody to look into, in a folder that only root may enter."""
    outer = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    home = outer / "home"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    yield home
    shutil.rmtree(outer)


async def test_another_user_can_read_nothing_and_no_folder_above_is_opened(home: Path) -> None:
    log = home.parent / "serve.log"
    with log.open("wb") as out:
        served = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
            [sys.executable, "-m", "mailsift", "serve", "--port", "0"],
            cwd=ROOT,
            env=environment_for({"MAILSIFT_HOME": str(home), "MAILSIFT_WORKER_PROCESSES": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            umask=0o022,
            start_new_session=True,
        )
    try:
        await _run_job(home, await address(log))
        _check_closed(home)
    finally:
        served.terminate()
        served.wait(60)


def _check_closed(home: Path) -> None:
    """Look at everything below the home as another user would."""
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    home.parent.chmod(0o711)  # so that every folder and file has to guard itself
    kept = [path for path in places_below(home) if not path.is_symlink()]
    assert {"scratch", "blobs", "postgres", "valkey", "worker.log", "pepper", "run"} <= {
        path.relative_to(home).parts[0] for path in kept
    }
    assert any(path.is_socket() for path in kept)
    assert opened_by_others([path for path in kept if path.exists()]) == []
    loose = [path for path in kept if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert loose == []
    assert opened_by_others([home]) == [str(home)]  # the reader can read what it may


async def _run_job(home: Path, url: str) -> None:
    """Upload a list and wait for its results."""
    made = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        [sys.executable, "-m", "mailsift", "keys", "create", "--account", "someone", "--json"],
        cwd=ROOT,
        env=environment_for({"MAILSIFT_HOME": str(home)}),
        capture_output=True,
        check=True,
    )
    headers = {"Authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        job = await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"], "mode": "fast"})
        path = f"/v1/bulk/jobs/{job.json()['data']['job_id']}"
        done = await client.get(path, params={"wait": 30})
        assert done.json()["data"]["status"] == "completed"
        (await client.get(f"{path}/results")).raise_for_status()
