"""Worker processes for tests: started like a service would, killed like a machine would."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
from typing_extensions import override

from mailsift.container import open_engine
from mailsift.jobs.waker import Waker
from mailsift.pipeline.background import guarded
from mailsift.runtime.loop_thread import LoopThread
from mailsift.settings import Settings
from tests.support.child_processes import start_service

ROOT = Path(__file__).parents[2]


class WorkerGroup:
    """Workers of one process each; every one is the leader of a process group of its own."""

    def __init__(
        self, settings: Settings, count: int, log: Path, *, program: Sequence[str] = ("mailsift",)
    ) -> None:
        self._settings = settings
        self._program = program
        self._count = count
        self._log = log.open("ab")
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._running.append(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()
        self._log.close()

    def kill_all(self) -> None:
        """SIGKILL every worker for good."""
        while self._running:
            worker = self._running.pop()
            kill_group(worker.pid)
            worker.wait()

    @property
    def all_alive(self) -> bool:
        """Whether none of them has ended by itself."""
        return all(worker.poll() is None for worker in self._running)

    @property
    def pids(self) -> list[int]:
        """The masters of the workers, in their places."""
        return [worker.pid for worker in self._running]

    def replace(self, place: int) -> None:
        """Stop one worker as a service manager would, and start another in its place."""
        self._running[place].terminate()
        self._running[place].wait(60)
        self._running[place] = self._start()

    def kill(self, place: int, *, whole_group: bool) -> int:
        """SIGKILL one worker: its whole process group, or only a process that works.

        Returns:
            How many processes were hit; a dead worker is started again.
        """
        worker = self._running[place % self._count]
        hit = kill_group(worker.pid) if whole_group else kill_children(worker.pid)
        if worker.poll() is not None or whole_group:
            worker.wait()
            self._running[place % self._count] = self._start()
        return hit

    def _start(self) -> subprocess.Popen[bytes]:
        return start_service(self._settings, self._log, *self._program, "worker", "--processes", "1")


def kill_group(leader: int) -> int:
    """SIGKILL every process of the group at once."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def interrupt_children(leader: int) -> None:
    """Send all processes below a worker, and below those, what Ctrl-C in their terminal would."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(leader).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGINT)


def kill_children(leader: int) -> int:
    """SIGKILL the pool processes below a worker and leave their master alive."""
    try:
        children = psutil.Process(leader).children()
    except psutil.NoSuchProcess:
        return 0
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    return len(children)


class Held(subprocess.Popen[bytes]):
    """A process that is stopped as soon as it has started: it has not ended before somebody has looked.

    It goes on with SIGCONT.
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.send_signal(signal.SIGSTOP)


def signal_held(child: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process that is held, and let it go on, if it can."""
    child.send_signal(number)
    with suppress(psutil.NoSuchProcess):
        child.send_signal(signal.SIGCONT)


@contextmanager
def workers(settings: Settings, count: int, log: Path) -> Iterator[WorkerGroup]:
    """Run `count` workers until the block ends."""
    with WorkerGroup(settings, count, log) as group:
        yield group


@contextmanager
def worker_beside(settings: Settings) -> Iterator[None]:
    """Run the engine of a worker on a thread of this process until the block ends.

    It hears no wake-ups, it looks for itself. For tests of what a worker does and not of its processes, which
    take a second to start.
    """
    loop, stack = LoopThread(), AsyncExitStack()
    try:
        engine = loop.run(stack.enter_async_context(open_engine(settings, worker_id="beside")))

        async def drive() -> None:
            while True:
                await guarded(engine.drain(), "drain")
                await asyncio.sleep(0.1)

        driving = loop.submit(drive())
        yield
        driving.cancel()
    finally:
        loop.run(stack.aclose())
        loop.close()


class Multiplied(Waker):
    """Sends so many times as many wake-ups as it is asked for; 0: none."""

    def __init__(self, sound: Waker, times: int) -> None:
        self._sound = sound
        self._times = times

    @override
    async def wake(self, count: int) -> None:
        """Pass it on."""
        await self._sound.wake(self._times * count)
