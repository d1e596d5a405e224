"""Lists are fetched from places and results put there, exactly, whoever dies meanwhile, without secrets."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import time, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import obstore
import polars as pl
import pytest
from obstore.store import S3Store
from sqlalchemy import text
from sqlalchemy.engine import make_url
from typing_extensions import override

from mailsift.cli.lists import sources_of
from mailsift.container import open_container
from mailsift.jobs.engine.engine import Engine
from mailsift.jobs.results.browse import RowFilter
from mailsift.jobs.schedules import Recheck, ScheduleSpec
from mailsift.jobs.service import JobService
from mailsift.jobs.submissions import Submitted, one_piece
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.foreign import matching_objects, read_query, write_table
from mailsift.storage.states import JobState
from tests.support import machines
from tests.support.connections import talking
from tests.support.databases import Databases
from tests.support.installation import ended, settings_for, until
from tests.support.parts import open_database
from tests.support.ready_jobs import Planter, engine_on, work_until_ended
from tests.support.store_gate import store_gate
from tests.support.workers import workers

LIST = b"email,name\na@example.com,Ann\nnope,Bob\na@example.com,=1\n"
FAST = JobOptions(mode=Mode.FAST)
RESULTS = ["passed", "syntax_error", "passed"]
SECRET = "not-to-be-seen"


class Web(ThreadingHTTPServer):
    """Serves a list; a request may be held in the middle of it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = 0
        self.list = LIST
        self.hold_first = False
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        self.server.asked += 1
        if not self.path.startswith("/list.csv"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.list)))
        self.end_headers()
        self.wfile.write(self.server.list[:20])
        self.wfile.flush()
        if self.server.hold_first and self.server.asked == 1:
            self.server.over.wait(120)
            return
        self.wfile.write(self.server.list[20:])

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


async def nothing_in_hand(planter: Planter) -> bool:
    return await planter.sql("SELECT in_hand FROM worker WHERE slots > 0") == [{"in_hand": 0}]


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with machines.s3("127.0.0.1", tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint


def bucket(endpoint: str) -> S3Store:
    return S3Store(
        machines.BUCKET,
        endpoint=endpoint,
        access_key_id="nobody",
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
    )


@pytest.fixture
def settings(make_settings: Callable[..., Settings], tmp_path: Path, database_url: str, s3: str) -> Settings:
    file = tmp_path / "connections.toml"
    file.write_text(f"""
        [[connection]]
        url = "s3://{machines.BUCKET}/lists"
        accounts = ["alice"]
        {_toml(_store_credentials(s3))}

        [[connection]]
        url = "postgresql://crm/sales"
        accounts = ["alice"]
        {_toml(_credentials(database_url))}

        [[connection]]
        url = "postgresql://crm/away"
        accounts = ["alice"]
        host = "127.0.0.1"
        port = "1"
        """)
    return make_settings(
        sandbox={"MAILSIFT_SMTP_PORT": "9", "MAILSIFT_ALLOW_NON_PUBLIC": "true"},
        connections=file,
        webhook_allow_http=True,
        dns_servers=("127.0.0.1:9",),
    )


def _toml(values: dict[str, str]) -> str:
    return "\n".join(f'{name} = "{value}"' for name, value in values.items())


def _store_credentials(endpoint: str) -> dict[str, str]:
    known = {"endpoint": endpoint, "region": "us-east-1", "allow_http": "true"}
    return {"access_key_id": "nobody", "secret_access_key": SECRET, **known}


def _credentials(database_url: str) -> dict[str, str]:
    """Return how a database that is called postgresql://crm/sales is really reached."""
    url = make_url(database_url)
    found = {"host": url.query.get("host", url.host), "user": url.username, "dbname": url.database}
    values = found | {"port": str(url.port) if url.port else None, "password": url.password}
    return {name: str(value) for name, value in values.items() if value}


async def done(
    settings: Settings, service: JobService, account: AccountId, source: str, sink: str
) -> JobView:
    submitted = await service.fetch(account, source, sink, FAST)
    async with engine_on(settings) as engine:
        return await work_until_ended(engine, service, account, submitted.job_id)


async def test_from_a_store_to_a_store(settings: Settings, service: JobService, s3: str) -> None:
    account = await service.account("alice")
    await obstore.put_async(bucket(s3), "lists/in/a.csv", LIST)
    base = f"s3://{machines.BUCKET}/lists"
    view = await done(settings, service, account, f"{base}/in/a.csv", f"{base}/out/a.parquet")
    assert (view.state, view.name, view.total) == (JobState.COMPLETED, "a.csv", 3)
    assert (await service.history(account, view.id, runs=1)).source_bytes == len(LIST)
    found = await obstore.get_async(bucket(s3), "lists/out/a.parquet")
    frame = pl.read_parquet(io.BytesIO(bytes(await found.bytes_async())))
    assert (frame["mailsift_result"].to_list(), frame["name"].to_list()) == (RESULTS, ["Ann", "Bob", "=1"])


async def test_from_a_query_to_a_table(settings: Settings, service: JobService, planter: Planter) -> None:
    account = await service.account("alice")
    await planter.sql("CREATE TABLE guest (email text, age int)")
    await planter.sql("INSERT INTO guest VALUES ('a@example.com', 7), ('nope', NULL), ('b@example.com', 9)")
    source = "postgresql://crm/sales?query=SELECT%20email,%20age%20FROM%20guest%20ORDER%20BY%20email;"
    view = await done(settings, service, account, source, "postgresql://crm/sales?table=checked")
    assert view.state is JobState.COMPLETED, view
    rows = await planter.sql("SELECT * FROM checked ORDER BY email")
    assert [(row["email"], row["age"], row["mailsift_result"]) for row in rows] == [
        ("a@example.com", "7", "passed"),
        ("b@example.com", "9", "passed"),
        ("nope", "", "syntax_error"),
    ]
    assert {row["mailsift_job"] for row in rows} == {view.id}
    for hostile in (
        "DELETE FROM guest",
        "SELECT 1) AS x; DELETE FROM guest; --",
        "SELECT pg_read_file('x') FROM",
    ):
        view = await done(settings, service, account, f"postgresql://crm/sales?query={hostile}", "")
        assert (view.state, view.error_code) == (JobState.FAILED, "place_refused")
    assert len(await planter.sql("SELECT * FROM guest")) == 3


async def test_a_query_gives_every_value_as_the_database_writes_it(
    settings: Settings, service: JobService, planter: Planter
) -> None:
    values = {
        "DATE 'infinity'": "infinity",
        "DATE '0044-03-15 BC'": "0044-03-15 BC",
        "TIME '24:00'": "24:00:00",
        "INTERVAL '1 month 3 days'": "1 mon 3 days",
        """'{"a": null}'::jsonb""": '{"a": null}',
        "ARRAY['x','y']": "{x,y}",
        "true": "true",
        "NULL::boolean": "",
    }
    account = await service.account("alice")
    columns = ", ".join(f"{value} AS c{place}" for place, value in enumerate(values))
    await planter.sql(f"CREATE TABLE odd AS SELECT 'a@example.com'::text AS email, {columns}")
    source, sink = "postgresql://crm/sales?query=TABLE%20odd", "postgresql://crm/sales?table=oddly"
    view = await done(settings, service, account, source, sink)
    assert (view.state, view.error_code) == (JobState.COMPLETED, ""), view
    (row,) = await planter.sql("SELECT * FROM oddly")
    assert [row[f"c{place}"] for place in range(len(values))] == [*values.values()]


async def test_a_query_s_columns_have_names_of_any_kind_and_texts_of_any_length(
    settings: Settings, service: JobService, planter: Planter
) -> None:
    account = await service.account("alice")
    query = "SELECT 'a@example.com' AS \"b@example.com\", '7' AS \"30\", repeat('é\"', 40000) AS body"
    sink = "postgresql://crm/sales?table=named"
    view = await done(settings, service, account, f"postgresql://crm/sales?query={query}", sink)
    assert (view.state, view.total, view.address_column) == (JobState.COMPLETED, 1, "b@example.com"), view
    (row,) = await planter.sql("SELECT * FROM named")
    assert (row["b@example.com"], row["30"]) == ("a@example.com", "7")
    assert (row["body"][:2], row["body"][-1]) == ('é"', "…")
    assert 20_000 < len(row["body"].encode()) < 65_536


async def test_a_database_without_an_encoding_gives_texts(databases: Databases) -> None:
    with databases.encoded("SQL_ASCII") as url:
        query = "SELECT 'Zoë@example.com' AS email"
        read = [piece async for piece in read_query("postgresql://crm/sales", _credentials(url), query)]
    assert b"".join(read).decode() == "email\r\nZoë@example.com\r\n"


async def test_a_query_that_the_database_always_ends_is_given_up_after_some_patience(
    settings: Settings, service: JobService, planter: Planter, database_url: str
) -> None:
    account = await service.account("alice")
    assert settings.connections is not None
    known = _toml({**_credentials(database_url), "options": "-c statement_timeout=50ms"})
    settings.connections.write_text(
        f'[[connection]]\nurl = "postgresql://crm/sales"\naccounts = ["alice"]\n{known}\n'
    )
    query = "postgresql://crm/sales?query=SELECT 'a@example.com' AS email, pg_sleep(60)::text"
    submitted = await service.fetch(account, query, "", FAST)
    delays = []
    for _ in range(3):
        async with engine_on(settings) as engine:  # another worker each time: none of them need remember
            await engine.drain()
        row = await planter.sql("SELECT extract(epoch FROM step_until - clock_timestamp()) AS delay FROM job")
        delays.append(row[0]["delay"])
        await planter.sql("UPDATE job SET step_until = clock_timestamp() - interval '1 second'")
    view = await service.get(account, submitted.job_id)
    assert (view.state, view.error_code) == (JobState.FAILED, "place_timeout")
    assert "statement_timeout" in view.error_detail
    assert delays[1] > 800


async def test_a_list_without_rows_ends_its_job_the_same_way_wherever_it_is(
    settings: Settings, service: JobService, planter: Planter, web: Web, s3: str
) -> None:
    account, store = await service.account("alice"), f"s3://{machines.BUCKET}/lists/empty.csv"
    await planter.sql("CREATE TABLE guest (email text)")
    web.list = b"email\n"
    await obstore.put_async(bucket(s3), "lists/empty.csv", b"")
    for source in ("postgresql://crm/sales?query=SELECT email FROM guest", f"{web.url}/list.csv", store):
        view = await done(settings, service, account, source, "postgresql://crm/sales?table=guest")
        assert (view.state, view.error_code) == (JobState.FAILED, "empty_file")


@pytest.mark.parametrize(
    ("known", "code"),
    [
        ({"dbname": SECRET}, "place_refused"),
        ({"user": SECRET}, "place_refused"),
        ({"user": "locked_out"}, "place_refused"),
        ({"usr": SECRET}, "place_refused"),
        ({"port": SECRET}, "place_refused"),
        ({"port": "1"}, "place_unavailable"),
        ({"host": "nobody.invalid"}, "place_unavailable"),
    ],
)
async def test_a_database_that_lets_us_not_in_is_told_from_one_that_is_away(
    planter: Planter, database_url: str, known: dict[str, str], code: str
) -> None:
    await planter.sql("DROP ROLE IF EXISTS locked_out")
    await planter.sql("CREATE ROLE locked_out NOLOGIN")
    try:
        with pytest.raises(MailsiftError) as refused:
            await anext(read_query("postgresql://crm/sales", _credentials(database_url) | known, "SELECT 1"))
    finally:
        await planter.sql("DROP ROLE locked_out")
    assert (refused.value.code, refused.value.retryable) == (code, code == "place_unavailable")
    assert SECRET not in refused.value.message


@pytest.mark.parametrize(
    ("state", "message", "code"),
    [
        ("28P01", "la autentificación password falló para el usuario «yo»", "place_refused"),
        ("28000", "нет записи в pg_hba.conf для компьютера", "place_refused"),
        ("3D000", 'データベース"sales"は存在しません', "place_refused"),
        ("42704", 'Konfigurationsparameter "x" does not exist', "place_refused"),
        ("57P03", "the database system is not permitted to start yet", "place_unavailable"),
        ("53300", 'lo siento, ya tenemos demasiados clientes C "28P01"', "place_unavailable"),
    ],
)
async def test_a_database_that_lets_us_not_in_is_understood_in_every_language(
    state: str, message: str, code: str
) -> None:
    fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": message}
    body = b"".join(f"{kind}{value}\0".encode() for kind, value in fields.items()) + b"\0"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)) - 4)
        writer.write(b"E" + (len(body) + 4).to_bytes(4) + body)
        await writer.drain()

    async with talking(refuse) as port:
        known = {"host": "127.0.0.1", "port": str(port), "user": "me", "sslmode": "disable"}
        with pytest.raises(MailsiftError) as refused:
            await anext(read_query("postgresql://crm/sales", known, "SELECT 1"))
    assert (refused.value.code, refused.value.retryable) == (code, code == "place_unavailable")


async def test_a_database_that_goes_without_a_word_is_missed() -> None:
    """As where a firewall forgets a connection on which nothing was said while a query ran."""
    asked = asyncio.Event()

    async def silent(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with talking(silent) as port:
        known = {"host": "127.0.0.1", "port": str(port), "user": "me"}
        reading = asyncio.ensure_future(anext(read_query("postgresql://crm/sales", known, "SELECT 1")))
        await asked.wait()
        asks_in = keepalive_seconds(port)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert 0 < asks_in <= 30


def keepalive_seconds(port: int) -> float:
    """In how many seconds the kernel asks whether the peer at this port is still there."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (timer,) = [row[5] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]
    kind, _, ticks = timer.partition(":")
    return int(ticks, 16) / os.sysconf("SC_CLK_TCK") if kind == "02" else 0.0


async def test_a_table_that_is_in_other_hands_is_tried_again_later(
    planter: Planter, database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailsift.storage.foreign.LOCK_TIMEOUT", "20ms")
    await planter.sql("CREATE TABLE checked (mailsift_job uuid, email text)")
    known, columns, rows = _credentials(database_url), [("email", "text")], [("a@example.com",)]
    database = open_database(settings)
    async with database.begin() as connection:
        await connection.execute(text("LOCK TABLE checked IN ROW EXCLUSIVE MODE"))
        with pytest.raises(MailsiftError, match="place_unavailable") as waited:
            await write_table("postgresql://crm/sales", known, "checked", columns, rows, job=uuid4())
    await database.aclose()
    assert waited.value.retryable
    assert await planter.sql("SELECT FROM checked") == []


async def test_who_may_only_fill_a_table_fills_it(planter: Planter, database_url: str) -> None:
    role, admin = f"filler_{uuid4().hex}", _credentials(database_url)
    columns, rows = [("email", "text")], [("a@example.com",)]
    await write_table("postgresql://crm/sales", admin, "filled", columns, rows, job=uuid4())
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT, INSERT, DELETE ON filled TO {role}",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    ):
        await planter.sql(statement)
    try:
        theirs = {**admin, "user": role}
        await write_table("postgresql://crm/sales", theirs, "filled", columns, rows, job=uuid4())
        assert len(await planter.sql("SELECT email FROM filled")) == 2
        with pytest.raises(MailsiftError, match="place_refused"):
            await write_table("postgresql://crm/sales", theirs, "missing", columns, rows, job=uuid4())
    finally:
        await planter.sql(f"DROP OWNED BY {role}")
        await planter.sql(f"DROP ROLE {role}")


async def test_from_the_web_and_nothing_secret_is_written_down(
    settings: Settings, service: JobService, planter: Planter, web: Web, capfd: pytest.CaptureFixture[str]
) -> None:
    account = await service.account("alice")
    view = await done(settings, service, account, f"{web.url}/list.csv?signature={SECRET}", "")
    assert (view.state, view.name, view.total) == (JobState.COMPLETED, "list.csv", 3)
    again = await service.fetch(account, f"{web.url}/list.csv", "", FAST, once="key")
    assert (await service.fetch(account, f"{web.url}/list.csv", "", FAST, once="key")).job_id == again.job_id
    view = await done(settings, service, account, f"{web.url}/gone.csv", "")
    assert (view.state, view.error_code) == (JobState.FAILED, "place_not_found")
    for table in ("job", "event", "idempotency"):
        assert SECRET not in str(await planter.sql(f"SELECT row_to_json(t)::text AS r FROM {table} t"))  # noqa: S608 - ours
    assert SECRET not in "".join(capfd.readouterr())


async def test_a_list_that_is_here_is_validated_while_another_is_fetched_and_the_only_slot_is_free(
    settings: Settings, service: JobService, planter: Planter, web: Web
) -> None:
    web.hold_first = True
    alice, bob = await service.account("alice"), await service.account("bob")
    far = await service.fetch(alice, f"{web.url}/list.csv", "", FAST)

    async def asked() -> bool:
        return web.asked > 0

    async with engine_on(settings, slots=1, heartbeat_s=0.1) as engine:
        draining = asyncio.create_task(engine.drain())
        await until(asked, within=30)
        here = await service.receive(bob, one_piece(LIST), FAST)
        assert (await ended(service, bob, here.job_id, within=30)).state is JobState.COMPLETED
        await planter.sql("UPDATE worker SET in_hand = 9")
        await until(partial(nothing_in_hand, planter), within=30)
        web.over.set()  # the list ends before it is whole, and is fetched once more
        await draining
        view = await work_until_ended(engine, service, alice, far.job_id)
    assert (view.state, view.processed) == (JobState.COMPLETED, 3)


@pytest.mark.parametrize(
    ("source", "sink", "code"),
    [
        ("ftp://example.com/a.csv", "", "bad_place"),
        ("s3://user:word@bucket/a.csv", "", "bad_place"),
        ("s3://bucket/../a.csv", "", "bad_place"),
        ("s3://bucket", "", "bad_place"),
        ("s3://bucket/lists//a.csv", "", "bad_place"),
        ("https://example.com/a.csv", "s3://bucket/lists/", "bad_place"),
        ("postgresql://crm/sales", "", "bad_place"),
        ("postgresql://crm/sales?query=x&sslmode=disable", "", "bad_place"),
        ("https://example.com/a.csv", "https://example.com/b.csv", "bad_place"),
        ("https://example.com/a.csv", 'postgresql://crm/sales?table=a"b', "bad_place"),
        ("https://example.com/a.csv", f"s3://{machines.BUCKET}/lists/a.pdf", "unknown_export_format"),
        (f"s3://{machines.BUCKET}/listsecret/a.csv", "", "place_not_allowed"),
        ("postgresql://crm/other?query=x", "", "place_not_allowed"),
    ],
)
async def test_a_place_nobody_may_use_is_refused_at_once(
    service: JobService, source: str, sink: str, code: str
) -> None:
    with pytest.raises(MailsiftError) as refused:
        await service.fetch(await service.account("alice"), source, sink, FAST)
    assert refused.value.code == code


@pytest.mark.parametrize("folder", ["%2e%2e", ".%2E", "%2E%2e/%2e%2e"])
async def test_no_spelling_leads_out_of_the_folder_of_a_connection(
    settings: Settings, service: JobService, s3: str, folder: str
) -> None:
    account = await service.account("alice")
    await obstore.put_async(bucket(s3), "others.csv", LIST)
    source = f"s3://{machines.BUCKET}/lists/{folder}/others.csv"
    view = await done(settings, service, account, source, "")
    assert (view.state, view.error_code) == (JobState.FAILED, "place_not_found")


async def test_an_object_is_called_as_it_is_written(settings: Settings, service: JobService, s3: str) -> None:
    account, base = await service.account("alice"), f"s3://{machines.BUCKET}/lists"
    out = f"é{'n' * 220}.csv"
    for key in ("lists/50% [é]/a%20b c.csv", "lists/50% [é]/%2e.csv"):
        await obstore.put_async(bucket(s3), key, LIST)
        view = await done(settings, service, account, f"s3://{machines.BUCKET}/{key}", f"{base}/%41 1/{out}")
        assert (view.state, view.total) == (JobState.COMPLETED, 3)
    assert (await obstore.head_async(bucket(s3), f"lists/%41 1/{out}"))["size"]
    found = await matching_objects(f"{base}/50% [é]/*.csv", _store_credentials(s3))
    assert found == [f"{base}/50% [é]/%2e.csv", f"{base}/50% [é]/a%20b c.csv"]


async def test_a_pattern_means_objects_in_its_folder_with_the_credentials_of_the_connection(
    settings: Settings, s3: str
) -> None:
    base = f"s3://{machines.BUCKET}/lists/months"
    for key in ("a.csv", "b.csv", "b.txt", "old/c.csv", "old/d/e.csv"):
        await obstore.put_async(bucket(s3), f"lists/months/{key}", LIST)
    async with open_container(settings) as container:
        places = container.places.with_environment()
        found = {
            pattern: await sources_of([f"{base}/{pattern}"], places, "alice")
            for pattern in ("*.csv", "**/*.csv", "*/*.csv", "**/d/*")
        }
    assert {pattern: [url.removeprefix(f"{base}/") for url in urls] for pattern, urls in found.items()} == {
        "*.csv": ["a.csv", "b.csv"],
        "**/*.csv": ["a.csv", "b.csv", "old/c.csv", "old/d/e.csv"],
        "*/*.csv": ["old/c.csv"],
        "**/d/*": ["old/d/e.csv"],
    }


async def test_a_connection_serves_its_accounts_only(service: JobService) -> None:
    with pytest.raises(MailsiftError, match="place_not_allowed"):
        await service.fetch(await service.account("bob"), f"s3://{machines.BUCKET}/lists/a.csv", "", FAST)


def _replace(file: Path | None, old: str, new: str) -> None:
    assert file is not None
    file.write_text(file.read_text().replace(old, new))


async def test_a_worker_that_dies_while_it_writes_an_object_leaves_nothing_under_its_name(
    settings: Settings, service: JobService, web: Web, s3: str, tmp_path: Path
) -> None:
    count = 40_000  # so that their results are sent in parts
    web.list = b"email\n" + b"".join(b"somebody-%d@example.com\n" % n for n in range(count))
    account, out = await service.account("alice"), "lists/whole.csv"
    with store_gate(s3) as gate:
        gate.holds_a_part = True
        _replace(settings.connections, s3, gate.url)
        submitted = await service.fetch(account, f"{web.url}/list.csv", f"s3://{machines.BUCKET}/{out}", FAST)
        with workers(settings, 1, tmp_path / "first.log"):
            assert await asyncio.to_thread(gate.held.wait, 100)
        with pytest.raises(FileNotFoundError):  # the worker is dead
            await obstore.head_async(bucket(s3), out)
        with workers(settings, 1, tmp_path / "second.log"):
            view = await ended(service, account, submitted.job_id, within=100)
    assert view.state is JobState.COMPLETED
    found = await obstore.get_async(bucket(s3), out)
    frame = pl.read_csv(io.BytesIO(bytes(await found.bytes_async())), columns=["email", "mailsift_result"])
    assert frame.n_unique("email") == len(frame) == count


async def test_workers_that_die_while_they_read_and_write_leave_one_exact_result(
    settings: Settings, service: JobService, planter: Planter, web: Web, tmp_path: Path
) -> None:
    web.hold_first = True
    account, database = await service.account("alice"), open_database(settings)
    places = f"{web.url}/list.csv", "postgresql://crm/sales?table=checked"

    async def reading() -> bool:
        return web.asked > 0

    async def writing() -> bool:
        waits = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE TABLE%' AND wait_event_type = 'Lock'"
        return bool(await planter.sql(waits))

    with workers(settings, 1, tmp_path / "workers.log") as group:
        submitted = await service.fetch(account, *places, FAST)
        await until(reading, within=60)
        group.kill(0, whole_group=True)
        async with database.begin() as connection:  # the table is in other hands, so the writer waits
            await connection.execute(text("CREATE TABLE checked (n int)"))
            await until(writing, within=100)
            group.kill(0, whole_group=True)
            await connection.rollback()
        view = await ended(service, account, submitted.job_id, within=100)
    await database.aclose()
    assert (view.state, web.asked) == (JobState.COMPLETED, 2)
    rows = await planter.sql("SELECT mailsift_result FROM checked")
    assert sorted(row["mailsift_result"] for row in rows) == sorted(RESULTS)


async def test_a_schedule_fetches_its_list_anew_and_asks_nobody_whose_answer_is_young(
    settings: Settings, database_url: str, redis_url: str, planter: Planter, web: Web
) -> None:
    known = [f"known{n}@ordinary.sandbox.test" for n in (1, 2)]
    web.list = "\n".join(("email", *known)).encode()
    with SandboxProcess(domains=10) as sandbox:
        deep = settings_for(
            settings.home,
            database_url=database_url,
            redis_url=redis_url,
            sandbox=sandbox.env,
            connections=settings.connections,
            webhook_allow_http=True,
        )
        async with open_container(deep) as container, engine_on(deep) as engine:
            service, account = container.jobs, await container.jobs.account("alice")
            spec = ScheduleSpec(cron="0 6 * * 1", recheck=Recheck.STALE, options=JobOptions(column="email"))
            source, sink = f"{web.url}/list.csv?signature={SECRET}", "postgresql://crm/sales?table=weekly"
            made = await container.schedules.create(account, None, spec, source=source, sink=sink)
            assert (made.source_job_id, made.spec.name) == (None, "list.csv")
            asked = []
            for addresses in (known, known, [*known, "known3@ordinary.sandbox.test"]):
                web.list = "\n".join(("email", *addresses)).encode()
                sandbox.reset()
                run = await container.schedules.run_now(account, made.id)
                view = await work_until_ended(engine, service, account, run)
                assert (view.state, view.valid) == (JobState.COMPLETED, len(addresses))
                asked.append(sandbox.counters()["rcpts"] > 0)
                rows = await planter.sql("SELECT email FROM weekly WHERE mailsift_job = :job", job=run)
                assert [row["email"] for row in rows] == addresses
            assert (asked, web.asked) == ([True, False, True], 3)
            runs = await container.schedules.runs(account, made.id)
            assert runs[0].job.parent_id == runs[1].job.id
    assert SECRET not in str(await planter.sql("SELECT row_to_json(s)::text AS r FROM schedule s"))


async def test_a_schedule_outlives_the_job_whose_list_it_fetches_anew(
    settings: Settings, service: JobService, web: Web
) -> None:
    account, kept = await service.account("alice"), replace(FAST, retention_s=9e6)
    sink = "postgresql://crm/sales?table=checked"
    far = (await service.fetch(account, f"{web.url}/list.csv", sink, kept)).job_id
    here = (await service.receive(account, one_piece(LIST), kept, sink=sink)).job_id
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, far)
    again = await service.rerun(account, far, (await service.get(account, far)).options)
    async with open_container(settings) as container:
        for job, goes in ((far, False), (again, False), (here, True)):
            made = await container.schedules.create(account, job, ScheduleSpec(cron="0 6 * * 1"))
            assert (made.list_expires_at is not None) is goes


async def test_the_rows_that_ended_risky_are_asked_again_and_put_nowhere(
    settings: Settings, service: JobService, planter: Planter, web: Web
) -> None:
    """The list of a job that was fetched is fetched anew, and goes where the job's results went."""
    account = await service.account("alice")
    web.list = b"email\na@example.com\nb@no-such-tld.examplee\n"
    sink = "postgresql://crm/sales?table=checked"
    first = await done(settings, service, account, f"{web.url}/list.csv", sink)
    async with open_container(settings) as container, engine_on(settings) as engine:
        for recheck, rows, written in ((Recheck.ALL, 2, 4), (Recheck.RISKY, 1, 4)):
            spec = ScheduleSpec(cron="0 6 * * 1", recheck=recheck)
            made = await container.schedules.create(account, first.id, spec)
            run = await container.schedules.run_now(account, made.id)
            view = await work_until_ended(engine, service, account, run)
            assert (view.state, view.total) == (JobState.COMPLETED, rows)
            assert len(await planter.sql("SELECT FROM checked")) == written
    assert web.asked == 2


async def test_a_list_that_its_sheet_could_not_hold_is_refused_before_it_is_validated(
    settings: Settings, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailsift.jobs.results.export.MOST_SHEET_ROWS", 3)
    account, sink = await service.account("alice"), f"s3://{machines.BUCKET}/lists/full.xlsx"
    submitted = await service.receive(account, one_piece(LIST), FAST, sink=sink)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, submitted.job_id)
    assert (view.state, view.error_code) == (JobState.FAILED, "too_many_rows_for_xlsx")
    assert (view.total, view.processed) == (0, 0)


async def test_the_results_of_a_list_that_is_sent_are_put_where_they_are_wanted(
    settings: Settings, service: JobService, planter: Planter
) -> None:
    account = await service.account("alice")

    async def send(sink: str) -> Submitted:
        return await service.receive(account, one_piece(LIST), FAST, sink=sink, once="key")

    made = await send("postgresql://crm/sales?table=checked")
    assert not (await send("postgresql://crm/sales?table=checked")).fresh
    with pytest.raises(MailsiftError, match="idempotency_key_reused"):
        await send("postgresql://crm/sales?table=other")
    with pytest.raises(MailsiftError, match="place_not_allowed"):
        await send("postgresql://crm/other?table=checked")
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, made.job_id)
    assert len(await planter.sql("SELECT FROM checked")) == 3


async def test_results_that_go_slowly_to_their_place_keep_nobody_waiting_and_are_whole(
    settings: Settings, service: JobService, planter: Planter, s3: str
) -> None:
    alice, bob = await service.account("alice"), await service.account("bob")
    many = b"email\n" + b"".join(b"somebody-%d@example.com\n" % n for n in range(40_000))
    out = "lists/slow.csv"

    with store_gate(s3) as gate:
        gate.holds_a_part = True
        _replace(settings.connections, s3, gate.url)
        async with engine_on(settings, slots=1, heartbeat_s=0.1) as engine:
            slow = await service.receive(alice, one_piece(many), FAST, sink=f"s3://{machines.BUCKET}/{out}")
            working = asyncio.create_task(work_until_ended(engine, service, alice, slow.job_id, within=180))
            assert await asyncio.to_thread(gate.held.wait, 100)
            here = await service.receive(bob, one_piece(LIST), FAST)
            assert (await ended(service, bob, here.job_id, within=30)).state is JobState.COMPLETED
            await planter.sql("UPDATE worker SET in_hand = 9")
            await until(partial(nothing_in_hand, planter), within=30)
            assert (await service.get(alice, slow.job_id)).state is JobState.FINALIZING
            gate.over.set()  # the part is lost, and sent once more
            view = await working
    assert view.state is JobState.COMPLETED
    found = await obstore.get_async(bucket(s3), out)
    assert len(pl.read_csv(io.BytesIO(bytes(await found.bytes_async())))) == 40_000


async def test_a_job_whose_place_for_results_is_away_can_be_cancelled_and_keeps_its_verdicts(
    settings: Settings, service: JobService
) -> None:
    account = await service.account("alice")
    made = await service.receive(account, one_piece(LIST), FAST, sink="postgresql://crm/away?table=checked")
    async with engine_on(settings) as engine:
        await until(lambda: _waiting(engine, service, account, made.job_id), within=30)
        assert [wait.reason for wait in (await service.get(account, made.job_id)).waiting] == ["place"]
        await service.cancel(account, made.job_id)
        await engine.drain()
    view = await service.get(account, made.job_id)
    assert (view.state, view.processed, view.error_code) == (JobState.CANCELLED, 3, "cancelled")
    async with service.browser.selection(account, made.job_id, RowFilter()) as found:
        assert len(pl.read_parquet(found.results)) == 3


async def test_results_that_are_lost_before_they_are_delivered_are_written_again(
    settings: Settings, service: JobService, planter: Planter, database_url: str
) -> None:
    account = await service.account("alice")
    made = await service.receive(account, one_piece(LIST), FAST, sink="postgresql://crm/away?table=checked")
    async with engine_on(settings) as engine:
        await until(lambda: _waiting(engine, service, account, made.job_id), within=30)
    (settings.home / f"blobs/jobs/{made.job_id}/results.parquet").unlink()
    _replace(
        settings.connections, 'host = "127.0.0.1"\n        port = "1"', _toml(_credentials(database_url))
    )
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, made.job_id)
    rows = await planter.sql("SELECT mailsift_result FROM checked")
    assert (view.state, len(rows)) == (JobState.COMPLETED, 3)


async def _waiting(engine: Engine, service: JobService, account: AccountId, job_id: JobId) -> bool:
    await engine.drain()
    return bool((await service.get(account, job_id)).waiting)


async def test_a_table_takes_a_list_with_columns_of_every_type(
    settings: Settings, service: JobService, planter: Planter, tmp_path: Path
) -> None:
    account = await service.account("alice")
    clock = {"span": [timedelta(hours=1)], "at": [time(1, 2, 3, 4)]}
    typed = {"tags": [["a", "b"]], "key": [{"n": 1}], "raw": [b"\xff"], **clock}
    pl.DataFrame({"email": ["a@example.com"], **typed}).write_parquet(tmp_path / "typed.parquet")
    pieces = one_piece((tmp_path / "typed.parquet").read_bytes())
    made = await service.receive(account, pieces, FAST, sink="postgresql://crm/sales?table=typed")
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, made.job_id)
    assert view.state is JobState.COMPLETED, view
    (row,) = await planter.sql("SELECT * FROM typed")
    assert [row[name] for name in typed] == ['["a","b"]', '{"n":1}', "/w==", "PT1H", "01:02:03.000004"]


async def test_a_table_takes_a_list_whatever_its_columns_are_called(
    settings: Settings, service: JobService, planter: Planter
) -> None:
    account = await service.account("alice")
    names = ["email", "q" * 70, "q" * 80, "q" * 63, "ctid", "xmin", "é" * 40, "mailsift_job"]
    pieces = one_piece(",".join(names).encode() + b"\na@example.com,1,2,3,4,5,6,7\n")
    made = await service.receive(account, pieces, FAST, sink="postgresql://crm/sales?table=named")
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, made.job_id)
    assert (view.state, view.error_code) == (JobState.COMPLETED, "")
    (row,) = await planter.sql("SELECT * FROM named")
    numbered = ["q" * 63, "q" * 61 + "_2", "q" * 61 + "_3", "ctid_2", "xmin_2", "é" * 31, "mailsift_job_2"]
    assert [row[name] for name in numbered] == list("1234567")
