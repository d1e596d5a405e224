"""The clients of other services as they are published: every method that verifies, pointed here over TLS."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
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
from tests.support.other_names import OtherNames, other_names
from tests.support.required_programs import OTHER_CLIENTS
from tests.support.workers import worker_beside

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
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(api_port=0, dns_servers=("127.0.0.1:9",), doors=tuple(Door))


@pytest.fixture
async def there(settings: Settings, tmp_path: Path) -> AsyncIterator[OtherNames]:
    """Where the names of the other services lead to our API, and a worker."""
    with worker_beside(settings):
        async with running(settings) as api:
            port = urlsplit(api.url).port
            assert port is not None
            async with other_names(HOSTS, port, tmp_path) as names:
                yield names


async def given(settings: Settings, account: str) -> str:
    """Return the keys of an account, of test mode, and the addresses, as the clients' programs take them."""
    async with open_container(settings) as container:
        owner = await container.jobs.account(account)
        keys = {
            door.value: (await container.keys.create(owner, kind=KeyKind(test=True, door=door))).secret
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


async def test_published_clients_verify_here_whatever_they_verify_at_home(
    there: OtherNames, settings: Settings
) -> None:
    python = [sys.executable, "-W", "error::UserWarning", str(HERE / "python_clients.py")]
    path = {"PYTHONPATH": str(OTHER_CLIENTS / "python")}
    modules = {"NODE_PATH": str(OTHER_CLIENTS / "node/node_modules"), "NODE_NO_WARNINGS": "1"}
    node = ["node", str(HERE / "node_clients.cjs")]
    keys = {name: await given(settings, name) for name in ("python", "node")}
    async with asyncio.TaskGroup() as programs:
        ran = (
            programs.create_task(there.run(*python, keys["python"], environment=path)),
            programs.create_task(there.run(*node, keys["node"], environment=modules)),
        )
    of_python, of_node = (json.loads(one.result()[0]) for one in ran)
    _zerobounce(of_python["zerobouncesdk"])
    _neverbounce(of_python["neverbounce-sdk"])
    _kickbox_and_emailable(of_python["kickbox"], of_python["emailable"])
    _zerobounce_of_node(of_node["@zerobounce/zero-bounce-sdk"])
    _neverbounce_of_node(of_node["neverbounce"])
    assert of_node["kickbox"]["verify"] == codes(kickbox.CODES)
    able = of_node["emailable"]
    assert able["verify"] == able["batches.status"] == codes(emailable.CODES)
    for name, found in of_python.items():
        _is_on_the_page(f"{name}` (PyPI)", found["version"], found)
    for name, found in of_node.items():
        package = OTHER_CLIENTS / f"node/node_modules/{name}/package.json"
        _is_on_the_page(f"{name}` (npm)", json.loads(package.read_text())["version"], found)


def _is_on_the_page(client: str, version: str, found: Mapping[str, Any]) -> None:
    """Hold version and methods of a client against what the documentation says of it."""
    assert all(found["refused"])
    line = next(one for one in PAGE.splitlines() if one.startswith(f"| `{client}"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert [cells[1], cells[3]] == [version, ", ".join(f"`{one}`" for one in methods(found))]


def _kickbox_and_emailable(box: Mapping[str, Any], able: Mapping[str, Any]) -> None:
    assert box["verify"] == codes(kickbox.CODES)
    assert box["verify-batch"] == [1, len(EMAILS)]
    assert box["balance"] > 0
    assert able["verify"] == able["batch_status"] == codes(emailable.CODES)
    assert able["verify (no SMTP)"] == list(emailable.CODES.usual[Result.PASSED])
    assert able["batch"] == "Batch successfully created."


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


def _zerobounce_of_node(found: Mapping[str, Any]) -> None:
    expected = codes(zerobounce.CODES)
    assert found["validateEmail"] == found["validateBatch"] == found["getFile"] == expected
    assert found["sendFile"] == [True, "File Accepted", "list.csv"]
    assert found["getFileStatus"] == [True, "100%"]
    assert found["deleteFile"] == "File Deleted"


def _neverbounce_of_node(found: Mapping[str, Any]) -> None:
    expected = words(neverbounce.CODES)
    assert found["single.check"] == expected
    assert found["jobs.results"] == [[str(place), word] for place, word in enumerate(expected)]
    assert found["jobs.create"] == [expected.count("valid")] * 2
    assert (found["jobs.parse"], found["jobs.start"]) == ("waiting", [100] * 2)
    assert found["jobs.download"] == 1 + expected.count("valid")
    assert (found["jobs.search"], found["account.info"]) == (["b.csv"], 2)
    assert found["jobs.delete"] == ["success"] * 2
