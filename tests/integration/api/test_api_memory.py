"""The largest list streams through the API process, which stays small: measured on the process itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from mailsift.container import open_container
from tests.support.serving import address, command

if TYPE_CHECKING:
    from mailsift.settings import Settings

MIB = 2**20
MOST = 160 * MIB
LIST = 250 * MIB
PIECE = b"user@example.com,some words that stand beside it\n" * 20_000
BOUNDARY = "----between"
TYPES = {"raw": "text/csv", "form": f"multipart/form-data; boundary={BOUNDARY}"}


def _pieces() -> list[bytes]:
    count, rest = divmod(LIST, len(PIECE))
    return [PIECE] * count + [PIECE[:rest]]


def _open_files(pid: int) -> set[str]:
    """Return the folders of the files a process has open, without names: so lies what is not to stay."""
    opened = [handle.readlink() for handle in Path(f"/proc/{pid}/fd").iterdir()]
    return {str(path.parent) for path in opened if path.name.endswith("(deleted)")}


async def _body(kind: str, meanwhile: Callable[[], None]) -> AsyncIterator[bytes]:
    if kind == "form":
        yield (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="mode"\r\n\r\nfast\r\n'
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="list.csv"\r\n'
            "Content-Type: text/csv\r\n\r\n"
        ).encode()
    for piece in _pieces():
        yield piece
    meanwhile()
    if kind == "form":
        yield f"\r\n--{BOUNDARY}--\r\n".encode()


def _peak(pid: int) -> int:
    """Return the most memory a process has held at once so far, in bytes."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) * 1024


async def _upload(url: str, key: str, kind: str, meanwhile: Callable[[], None]) -> str:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": TYPES[kind]}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=300) as client:
        answer = await client.post("/v1/bulk/jobs", content=_body(kind, meanwhile))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["data"]["job_id"])


async def test_250_megabytes_stream_through_a_process_of_less_than_160(
    settings: Settings, tmp_path: Path
) -> None:
    async with open_container(settings) as container:
        key = (await container.keys.create(await container.jobs.account("alice"))).secret
    digest = hashlib.sha256(b"".join(_pieces())).hexdigest()
    async with command(settings, tmp_path / "api.log", "api") as served:
        url = await address(tmp_path / "api.log")
        idle, peaks = _peak(served.pid), {}
        opened: set[str] = set()
        for kind in TYPES:
            job_id = await _upload(url, key, kind, lambda: opened.update(_open_files(served.pid)))
            peaks[kind] = _peak(served.pid)
            source = settings.home / "blobs/jobs" / job_id / "source"
            assert hashlib.sha256(source.read_bytes()).hexdigest() == digest
        maps = Path(f"/proc/{served.pid}/maps").read_text()  # noqa: ASYNC240 - a small file
    assert opened == {str(settings.home / "scratch")}  # of the form, on the disk: /tmp may be memory
    assert max(peaks.values()) < MOST, (idle, peaks)
    assert max(peaks.values()) - idle < 32 * MIB, (idle, peaks)  # nothing of the list stays in memory
    # Frames are a fifth of a process: nothing that is imported at the start may use them
    # (mailsift.lazy_import; mailsift.pipeline.frames.Schema for what modules say of frames).
    assert "polars" not in maps
