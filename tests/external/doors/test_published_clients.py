"""The clients of other services as they are published: every method that verifies, pointed here over TLS."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import KeyKind
from mailsift.api.doors import emailable, kickbox, neverbounce, zerobounce
from mailsift.api.doors.codes import CodeTable
from mailsift.container import open_container
from mailsift.pipeline.scripted import ADDRESSES
from mailsift.pipeline.verdict import Result
from mailsift.settings import Settings
from tests.integration.api.conftest import running
from tests.support.installation import settings_for
from tests.support.other_names import OtherNames, other_names
from tests.support.required_programs import OTHER_CLIENTS
from tests.support.workers import workers

pytestmark = pytest.mark.needs("other-clients", "ip", "node")

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs/compatibility.md").read_text()
HOSTS = ("mailsift.test", "api.neverbounce.com", "api.emailable.com", "bulkapi.zerobounce.net")
ASKED = (
    Result.DELIVERABLE,
    Result.CATCH_ALL,
    Result.UNREACHABLE,
    Result.MAILBOX_FULL,
    Result.DISPOSABLE,
    Result.MAILBOX_NOT_FOUND,
    Result.DOMAIN_NOT_FOUND,
    Result.SYNTAX_ERROR,
)
EMAILS = [ADDRESSES[result] for result in ASKED]


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_SMTP_PORT": "9"},
        api_port=0,
        dns_servers=("127.0.0.1:9",),
        doors=tuple(Door),
    )


@pytest.fixture
async def there(settings: Settings, tmp_path: Path) -> AsyncIterator[OtherNames]:
    """Where the names of the other services lead to our API, and a worker."""
    with workers(settings, 1, tmp_path / "worker.log"):
        async with running(settings) as api:
            port = urlsplit(api.url).port
            assert port is not None
            async with other_names(HOSTS, port, tmp_path) as names:
                yield names


async def given(settings: Settings) -> str:
    """Return the keys, of test mode, and the addresses, as the clients' programs take them."""
    async with open_container(settings) as container:
        account = await container.jobs.account("acme")
        keys = {
            door.value: (await container.keys.create(account, kind=KeyKind(test=True, door=door))).secret
            for door in Door
        }
    return json.dumps({"keys": keys, "emails": EMAILS})


def codes(table: CodeTable) -> list[list[str]]:
    return [list(table.usual[result]) for result in ASKED]


def words(table: CodeTable) -> list[str]:
    return [table.usual[result][0] for result in ASKED]


def methods(found: Mapping[str, Any]) -> list[str]:
    """Return the names of a client's methods that were called."""
    return [name for name in found if name not in {"version", "refused"} and not name.endswith(")")]


def on_the_page(client: str) -> list[str]:
    """Return version and methods that the documentation names."""
    line = next(one for one in PAGE.splitlines() if one.startswith(f"| `{client}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


async def test_python_clients_verify_here_whatever_they_verify_at_home(
    there: OtherNames, settings: Settings
) -> None:
    program = [sys.executable, "-W", "error::UserWarning", str(HERE / "python_clients.py")]
    path = {"PYTHONPATH": str(OTHER_CLIENTS / "python")}
    told, _ = await there.run(*program, await given(settings), environment=path)
    clients = json.loads(told)
    _zerobounce(clients["zerobouncesdk"])
    _neverbounce(clients["neverbounce-sdk"])
    box = clients["kickbox"]
    assert box["verify"] == codes(kickbox.CODES)
    assert box["verify-batch"] == [1, len(EMAILS)]
    assert box["balance"] > 0
    able = clients["emailable"]
    assert able["verify"] == able["batch_status"] == codes(emailable.CODES)
    assert able["verify (no SMTP)"] == list(emailable.CODES.usual[Result.PASSED])
    assert able["batch"] == "Batch successfully created."
    for name, found in clients.items():
        assert all(found["refused"])
        version, listed = on_the_page(f"{name}` (PyPI)")[1:4:2]
        assert (version, listed) == (found["version"], ", ".join(f"`{one}`" for one in methods(found)))


def _zerobounce(found: Mapping[str, Any]) -> None:
    expected = codes(zerobounce.CODES)
    assert found["validate"] == found["validate (POST)"] == found["validate_batch"] == expected
    assert found["get_file"] == [expected, expected]
    assert found["send_file"] == found["send_file_stream"] == [True, "File Accepted", "list.csv"]
    assert found["file_status"][:2] == [True, "100%"]
    assert found["delete_file"] == ["File Deleted", "File Deleted"]
    assert found["get_credits"][0] == found["get_credits"][1] > 0
    assert found["refused"][-1] == "-1"


def _neverbounce(found: Mapping[str, Any]) -> None:
    expected = words(neverbounce.CODES)
    assert found["single_check"] == expected
    assert found["single_check (more)"] == ["example.com", 0]
    assert found["account_info"] == [3, 0]
    assert found["jobs_create"] == [expected.count("valid")] * 3
    assert (found["jobs_parse"], found["jobs_start"]) == ("waiting", [100] * 3)
    assert found["jobs_status"] == ["a.csv", len(EMAILS), expected.count("invalid")]
    assert found["jobs_results"] == [[str(place), word] for place, word in enumerate(expected)]
    picked = [
        [email, word, "0"]
        for email, word in zip(EMAILS, expected, strict=True)
        if word in {"valid", "invalid"}
    ]
    assert found["jobs_download"] == picked
    assert found["jobs_search"] == ["a.csv", "b.csv", "c.csv"]
    assert found["jobs_delete"] == ["success"] * 3


async def test_node_clients_verify_here_whatever_they_verify_at_home(
    there: OtherNames, settings: Settings
) -> None:
    modules = {"NODE_PATH": str(OTHER_CLIENTS / "node/node_modules"), "NODE_NO_WARNINGS": "1"}
    told, _ = await there.run(
        "node", str(HERE / "node_clients.cjs"), await given(settings), environment=modules
    )
    clients = json.loads(told)
    bounce, expected = clients["@zerobounce/zero-bounce-sdk"], codes(zerobounce.CODES)
    assert bounce["validateEmail"] == bounce["validateBatch"] == bounce["getFile"] == expected
    assert bounce["sendFile"] == [True, "File Accepted", "list.csv"]
    assert bounce["getFileStatus"] == [True, "100%"]
    never, heard = clients["neverbounce"], words(neverbounce.CODES)
    assert never["single.check"] == heard
    assert never["jobs.results"] == [[str(place), word] for place, word in enumerate(heard)]
    assert never["jobs.create"] == [heard.count("valid")] * 2
    assert (never["jobs.parse"], never["jobs.start"]) == ("waiting", [100] * 2)
    assert never["jobs.download"] == 1 + heard.count("valid")
    assert (never["jobs.search"], never["account.info"]) == (["b.csv"], 2)
    assert never["jobs.delete"] == ["success"] * 2
    assert clients["kickbox"]["verify"] == codes(kickbox.CODES)
    able = clients["emailable"]
    assert able["verify"] == able["batches.status"] == codes(emailable.CODES)
    for name, found in clients.items():
        assert all(found["refused"])
        version, listed = on_the_page(f"{name}` (npm)")[1:4:2]
        package = json.loads((OTHER_CLIENTS / f"node/node_modules/{name}/package.json").read_text())
        assert (version, listed) == (package["version"], ", ".join(f"`{one}`" for one in methods(found)))
