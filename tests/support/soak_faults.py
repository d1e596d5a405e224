"""What goes wrong in a soak: each fault is done to real processes, servers and files, and undone.

A fault is done up to its `yield`, and undone behind it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString

import psutil
import psycopg
import redis

from mailsift.runtime.embedded import EmbeddedServers
from mailsift.sandbox.client import SandboxProcess
from tests.support.liar import Liar
from tests.support.mail_gate import Gate
from tests.support.workers import WorkerGroup, interrupt_children

_BROKER_KEYS: Final = ("mailsift", "unacked", "unacked_index", "_kombu.binding.mailsift")
_TAKE_LEASES: Final = """
    UPDATE chunk SET state = 'ready', ready_at = clock_timestamp(), attempt = 0, lease_token = NULL,
        lease_owner = NULL, lease_until = NULL
    WHERE state = 'leased' AND leased_at < clock_timestamp() - interval '0.2 s' RETURNING job_id::text
"""
# The last one ends it. Not SIGKILL: that is what the system sends without memory, and is waited for longer.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Stage:
    """Where faults happen.

    Attributes:
        servers: PostgreSQL and Valkey, which come back by themselves.
        gate: before the mail servers.
        clock: says by how much the clock of one worker is wrong.
        workers: place 0 is the witness whose memory is looked at, and is left alone.
        api: returns the process id of the API that may be killed; another one may not.
        blobs: the store, a folder.
        disk: a small disk that holds scratch files and blobs; None where nobody may mount one.
        dice: everything random.
    """

    servers: EmbeddedServers
    sandbox: SandboxProcess
    resolver: Liar
    gate: Gate
    clock: Path
    workers: WorkerGroup
    api: Callable[[], int]
    blobs: Path
    disk: Path | None
    dice: random.Random

    def victim(self) -> int:
        """Return the place of a worker that may be hurt."""
        return self.dice.randrange(1, len(self.workers.pids))

    def query(self, statement: LiteralString, *values: str) -> Sequence[tuple[str, ...]]:
        """Return what the database says; nothing while it is away."""
        with (
            suppress(psycopg.Error),
            psycopg.connect(self.servers.database_url.replace("+psycopg", "")) as db,
        ):
            return db.execute(statement, values).fetchall()
        return ()


def a_worker_process_dies(stage: Stage) -> Iterator[None]:
    stage.workers.kill(stage.victim(), whole_group=False)
    yield


def a_worker_dies_with_all_its_processes(stage: Stage) -> Iterator[None]:
    stage.workers.kill(stage.victim(), whole_group=True)
    yield


def a_worker_hangs_longer_than_its_leases(stage: Stage) -> Iterator[None]:
    hung = _children(stage.workers.pids[stage.victim()])
    pids, limit = {process.pid for process in hung}, time.monotonic() + 5
    while time.monotonic() < limit:  # in the middle of a chunk, so that it has something to commit too late
        held = stage.query("SELECT lease_owner FROM chunk WHERE state = 'leased'")
        if pids & {int(owner.split(":")[-2]) for (owner,) in held}:
            break
        time.sleep(0.02)
    for process in hung:
        _send(process.pid, signal.SIGSTOP)
    yield
    for process in hung:
        _send(process.pid, signal.SIGCONT)


def the_processes_of_a_worker_hear_ctrl_c(stage: Stage) -> Iterator[None]:
    limit = time.monotonic() + 2
    while time.monotonic() < limit:
        interrupt_children(stage.workers.pids[stage.victim()])
        time.sleep(0.02)
    yield


def leases_are_taken_from_the_living(stage: Stage) -> Iterator[None]:
    """As an operator may, or who believes a worker dead: two do the same, and one comes too late."""
    limit = time.monotonic() + 4
    while time.monotonic() < limit:
        stage.query(_TAKE_LEASES)
        time.sleep(0.05)
    yield


def whoever_finishes_or_reads_a_list_dies(stage: Stage) -> Iterator[None]:
    witness = {process.pid for process in _children(stage.workers.pids[0])}
    limit = time.monotonic() + 2
    while time.monotonic() < limit:
        held = stage.query("SELECT step_owner FROM job WHERE step_token IS NOT NULL ORDER BY state")
        pids = [pid for (owner,) in held if (pid := int(owner.split(":")[-2])) not in witness]
        if pids:
            _send(pids[0], signal.SIGKILL)
            break
        time.sleep(0.02)
    yield


def the_api_dies(stage: Stage) -> Iterator[None]:
    _send(stage.api(), signal.SIGKILL)
    yield


def redis_hangs(stage: Stage) -> Iterator[None]:
    pid = stage.servers.valkey.pid()
    if pid:
        _send(pid, signal.SIGSTOP)
    yield
    if pid:
        _send(pid, signal.SIGCONT)


def redis_dies(stage: Stage) -> Iterator[None]:
    _send(stage.servers.valkey.pid(), signal.SIGKILL)
    yield


def redis_forgets_everything(stage: Stage) -> Iterator[None]:
    with suppress(redis.RedisError), redis.Redis.from_url(stage.servers.redis_url) as client:
        client.flushall()
    yield


def a_broker_key_is_of_a_wrong_type(stage: Stage) -> Iterator[None]:
    with suppress(redis.RedisError), redis.Redis.from_url(stage.servers.redis_url) as client:
        key = f"ms:celery:{stage.dice.choice(_BROKER_KEYS)}"
        client.delete(key)
        client.set(key, "rubbish")
    yield


def postgresql_dies(stage: Stage) -> Iterator[None]:
    _send(stage.servers.postgres.pid(), signal.SIGQUIT)
    yield


def postgresql_ends_every_session(stage: Stage) -> Iterator[None]:
    stage.query("SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    yield


def postgresql_can_only_be_read(stage: Stage) -> Iterator[None]:
    yield from _setting(stage, "default_transaction_read_only", "on")


def postgresql_has_no_time(stage: Stage) -> Iterator[None]:
    yield from _setting(stage, "statement_timeout", "2ms")


def _setting(stage: Stage, name: LiteralString, value: LiteralString) -> Iterator[None]:
    """Have the server do something as an operator may have told it to, but for who tells it."""
    url = stage.servers.database_url.replace("+psycopg", "")
    spared = "-c default_transaction_read_only=off -c statement_timeout=0"
    for command in (f"ALTER SYSTEM SET {name} = '{value}'", f"ALTER SYSTEM RESET {name}"):
        with psycopg.connect(url, autocommit=True, options=spared) as db:
            db.execute(command)
            db.execute("SELECT pg_reload_conf()")
        if command.endswith("'"):
            yield


def redis_is_full(stage: Stage) -> Iterator[None]:
    with redis.Redis.from_url(stage.servers.redis_url) as client:
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", 0)


def redis_is_a_replica(stage: Stage) -> Iterator[None]:
    """As after a failover: it answers, and takes nothing."""
    with redis.Redis.from_url(stage.servers.redis_url) as client:
        client.replicaof("127.0.0.1", 1)
        yield
        client.replicaof("NO", "ONE")


def the_store_is_away(stage: Stage) -> Iterator[None]:
    away = stage.blobs.with_name("blobs.away")
    stage.blobs.rename(away)
    stage.blobs.write_text("")
    yield
    stage.blobs.unlink()
    away.rename(stage.blobs)


def the_disk_is_full(stage: Stage) -> Iterator[None]:
    if stage.disk is None:
        yield
        return
    ballast = stage.disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65_536))
    yield
    ballast.unlink()


def the_resolver_lies(stage: Stage) -> Iterator[None]:
    stage.resolver.lies = True
    yield
    stage.resolver.lies = False


def the_resolver_is_silent(stage: Stage) -> Iterator[None]:
    stage.resolver.silent = True
    yield
    stage.resolver.silent = False


def mail_servers_are_silent(stage: Stage) -> Iterator[None]:
    _send(stage.sandbox.pid, signal.SIGSTOP)
    yield
    _send(stage.sandbox.pid, signal.SIGCONT)


def port_25_is_closed(stage: Stage) -> Iterator[None]:
    stage.gate.turn_soon("closed")
    yield
    stage.gate.turn_soon("open")


def mail_servers_cut_every_session(stage: Stage) -> Iterator[None]:
    stage.gate.turn_soon("silent")
    time.sleep(1)
    stage.gate.turn_soon("open")  # and whoever waited is hung up on
    yield


def a_clock_jumps(stage: Stage) -> Iterator[None]:
    """Three days ahead, or a day back."""
    stage.clock.write_text(stage.dice.choice(("259200", "-86400")))
    yield
    stage.clock.write_text("0")


def reading_processes_get_signals(stage: Stage) -> Iterator[None]:
    limit = time.monotonic() + 3
    while time.monotonic() < limit:
        for worker in stage.workers.pids:
            for process in _children(worker, recursive=True):
                with suppress(psutil.Error):
                    if "mailsift.jobs.intake.child" in process.cmdline():
                        process.send_signal(stage.dice.choice(_SIGNALS))
        time.sleep(0.05)
    yield


def a_segment_is_damaged(stage: Stage) -> Iterator[None]:
    segments = sorted(stage.blobs.glob("jobs/*/segments/*"))
    if segments:
        with suppress(OSError):
            damaged = stage.dice.choice(segments)
            data = damaged.read_bytes()
            damaged.write_bytes(data[:40] + b"\xff" + data[41:])
    yield


def _children(pid: int, *, recursive: bool = False) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []


def _send(pid: int | None, number: signal.Signals) -> None:
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


Fault = Callable[[Stage], Iterator[None]]

FAULTS: Final[Sequence[tuple[Fault, int]]] = (
    (a_worker_process_dies, 0),
    (a_worker_dies_with_all_its_processes, 0),
    (a_worker_hangs_longer_than_its_leases, 7),
    (the_processes_of_a_worker_hear_ctrl_c, 0),
    (leases_are_taken_from_the_living, 0),
    (whoever_finishes_or_reads_a_list_dies, 0),
    (the_api_dies, 0),
    (redis_hangs, 5),
    (redis_dies, 2),
    (redis_forgets_everything, 0),
    (redis_is_full, 5),
    (redis_is_a_replica, 5),
    (a_broker_key_is_of_a_wrong_type, 1),
    (postgresql_dies, 3),
    (postgresql_ends_every_session, 0),
    (postgresql_can_only_be_read, 5),
    (postgresql_has_no_time, 5),
    (the_store_is_away, 5),
    (the_disk_is_full, 5),
    (the_resolver_lies, 6),
    (the_resolver_is_silent, 4),
    (mail_servers_are_silent, 5),
    (port_25_is_closed, 5),
    (mail_servers_cut_every_session, 0),
    (a_clock_jumps, 5),
    (reading_processes_get_signals, 0),
    (a_segment_is_damaged, 0),
)
"""Every fault, and for how many seconds it lasts."""


def rolls(dice: random.Random) -> Iterator[tuple[Fault, int]]:
    """Yield faults for ever: all of them in one random order, then in another."""
    while True:
        yield from dice.sample(FAULTS, len(FAULTS))
