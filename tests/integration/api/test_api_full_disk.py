"""An upload for which there is no room is refused in words that help, and taken once there is."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.installation import settings_for

if TYPE_CHECKING:
    import httpx

    from mailsift.settings import Settings

pytestmark = pytest.mark.needs("root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for half a megabyte, most of it taken."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", place], check=True)
    (place / "ballast").write_bytes(bytes(400_000))
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def settings(disk: Path, database_url: str, redis_url: str) -> Settings:
    return settings_for(disk / "home", database_url=database_url, redis_url=redis_url, sandbox={}, api_port=0)


async def test_an_upload_without_room_is_a_507_that_says_what_to_do(
    disk: Path, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(disk))  # as `serve` does it: forms are kept there
    form = {"file": ("list.csv", b"email\n" + b"somebody@example.com\n" * 60_000)}
    job = {"emails": [f"somebody{n}@example.com" for n in range(10_000)], "mode": "fast"}
    for refused in (
        await client.post("/v1/bulk/jobs", json=job),
        await client.post("/v1/bulk/jobs?mode=fast", files=form),
    ):
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (507, "storage_full")
        assert int(refused.headers["retry-after"]) > 0
        assert "make room on the disk" in problem["message"]
        assert problem["request_id"] in problem["message"]
    assert (await client.get("/v1/bulk/jobs")).json()["data"]["jobs"] == []
    (disk / "ballast").unlink()
    assert (await client.post("/v1/bulk/jobs", json=job)).is_success
