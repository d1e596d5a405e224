"""Objects of Azure and Google: written, listed and read through what stands for their stores.

Azure's is Microsoft's own emulator. No emulator of Google's that a registry has takes uploads of the XML API,
which the library speaks; moto does: that API is S3's, once Google's token is exchanged for a signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.foreign import matching_objects, read_object, write_object
from tests.support import machines
from tests.support.debian import daemon, listens
from tests.support.ports import free_port
from tests.support.required_programs import STORES
from tests.support.store_gate import store_gate

# Everybody's account of the emulator.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
LARGE = b"email,name\n" + b"a@example.com,Ann\n" * 400_000  # more than one part


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder, port = tmp_path_factory.mktemp("azure"), free_port()
    options = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent")
    argv: list[str | Path] = [
        "node",
        STORES / "node_modules/.bin/azurite-blob",
        *options,
        "--disableTelemetry",
    ]
    with daemon(argv, log=folder / "azurite.log", up=lambda: listens(port, "127.0.0.1")):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(endpoint, "lake")
        yield {"account_key": KEY, "endpoint": endpoint, "allow_http": "true"}


def _make_container(endpoint: str, name: str) -> None:
    stamped = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    lines = "".join(f"{header}:{value}\n" for header, value in stamped.items())
    text = f"PUT{chr(10) * 12}{lines}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signed = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    headers = {**stamped, "Authorization": f"SharedKey {ACCOUNT}:{signed}"}
    httpx.put(f"{endpoint}/{name}?restype=container", headers=headers).raise_for_status()


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with machines.s3("127.0.0.1", tmp_path_factory.mktemp("gs")) as store, store_gate(store) as gate:
        nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        key = json.dumps({**nobody, "gcs_base_url": gate.url, "disable_oauth": True})
        yield {"service_account_key": key, "allow_http": "true"}


async def _there_and_back(base: str, config: Mapping[str, str], folder: Path) -> None:
    for name, data in (("one.csv", b"email\na@example.com\n"), ("large.csv", LARGE)):
        (folder / name).write_bytes(data)
        await write_object(f"{base}/in/{name}", config, folder / name)
        found = [piece async for piece in read_object(f"{base}/in/{name}", config)]
        assert b"".join(found) == data
    assert await matching_objects(f"{base}/in/*.csv", config) == [
        f"{base}/in/large.csv",
        f"{base}/in/one.csv",
    ]
    with pytest.raises(MailsiftError, match="place_not_found"):
        await anext(read_object(f"{base}/in/gone.csv", config))


@pytest.mark.needs("stores", "node")
async def test_objects_of_azure(azure: dict[str, str], tmp_path: Path) -> None:
    await _there_and_back(f"az://{ACCOUNT}/lake", azure, tmp_path)
    wrong = {**azure, "account_key": base64.b64encode(b"wrong").decode()}
    with pytest.raises(MailsiftError, match="place_refused"):
        await anext(read_object(f"az://{ACCOUNT}/lake/in/one.csv", wrong))


async def test_objects_of_google(google: dict[str, str], tmp_path: Path) -> None:
    await _there_and_back(f"gs://{machines.BUCKET}", google, tmp_path)
