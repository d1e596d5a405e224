"""`import mailsift` in a program of one's own: `check`, `check_many`, and the same with `await`.

    >>> import mailsift
    >>> found = mailsift.check("Jane.Doe@EXAMPLE.com", mode="fast")
    >>> found.address, str(found.status), found.score
    ('jane.doe@example.com', 'valid', 60)
    >>> mailsift.check_many(["jane.doe@example.com", "jane.doe@"], mode="fast")["result"].to_list()
    ['passed', 'syntax_error']

Addresses go through the validator of the service's workers (mailsift.pipeline.validator). It lives on an
event loop on a thread of its own, started by the first call that needs it: so the calls work in a notebook,
in any thread and in any event loop, and all of them share what was learned.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar, Unpack, cast

import structlog

from mailsift.container import Container, OtherParts
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.guard import read_address
from mailsift.pipeline.single import validate_fast
from mailsift.pipeline.syntax.address import parse_cell
from mailsift.pipeline.verdict import Result, Status, Verdict, VerdictPolicy
from mailsift.runtime.loop_thread import LoopThread
from mailsift.settings import Settings

if TYPE_CHECKING:
    import polars as pl

    from mailsift.pipeline.validator import Validator

T = TypeVar("T")

_ONE_SECONDS: Final = 20.0
"""How long one address may take, unless the caller says otherwise."""
_SLICE: Final = 50_000  # addresses validated at a time: bounds what lies between evidence and verdict
_SLICES_AT_A_TIME: Final = 3  # while one slice waits for its slowest domain, others go on

_DEEP: Final = (
    "Mode deep asks mail servers from this process alone: nobody comes back to a server that says 'later' "
    "(deferred), a provider is asked no faster than its limits allow, and without port 25 nothing is learned "
    "(probe_unavailable). `mailsift run` does lists, with retries and over restarts."
)


class DeepModeWarning(UserWarning):
    """What mode deep cannot do in a library; said once in a process."""


@dataclass(frozen=True, slots=True)
class CheckResult(Verdict):
    """The 13 fields of a verdict, and the address it is about.

    Attributes:
        address: canonical (trimmed, lower case, its domain in ASCII); a text that is none, trimmed.
    """

    address: str

    @classmethod
    def of(cls, address: str, fields: Mapping[str, Any]) -> Self:
        """Make one of the fields by name."""
        result, status = Result(fields["result"]), Status(fields["status"])
        return cls(**{**fields, "result": result, "status": status, "address": address})

    def as_dict(self) -> dict[str, Any]:
        """Return the address and the 13 fields, in the contract's order, as plain types."""
        fields = asdict(self)
        return {
            "address": fields.pop("address"),
            **fields,
            "result": str(self.result),
            "status": str(self.status),
        }


class CallOptions(TypedDict, total=False):
    """How to look at addresses.

    Attributes:
        mode: "fast" (syntax and lists, no network), "medium" (and DNS, the default) or "deep" (and the mail
            server).
        deadline: seconds; what is not known by then makes a verdict risky, never invalid. By default 20 for
            one address and no end for many.
        max_age: seconds a mail server's answer is used again; by default MAILSIFT_MAX_AGE, which is a day.
    """

    mode: str
    deadline: float | None
    max_age: float | None


class CheckerOptions(TypedDict, total=False):
    """What a checker stands on; what is not given is read from the variables MAILSIFT_*, as by the service.

    Attributes:
        resolvers: DNS servers, one or more, an IP address or "host:port" each; the system's by default.
        policy: what decides between verdicts.
        redis_url: Redis or Valkey through which processes share facts and the throttle.
        overrides: TOML file with lists and provider limits of one's own.
    """

    resolvers: str | Iterable[str]
    policy: VerdictPolicy | None
    redis_url: str | None
    overrides: str | Path | None


class Options(CallOptions, CheckerOptions, total=False):
    """All of both."""


class _LiveParts:
    """A checker's parts on their event loop."""

    def __init__(self, container: Container, closing: AsyncExitStack) -> None:
        self._container = container
        self._closing = closing
        self._process = os.getpid()
        self._opening = asyncio.Lock()
        self._validator: Validator | None = None
        self._turn = asyncio.Semaphore(_SLICES_AT_A_TIME)
        _log_as_python_does()
        self._asked: set[Future[Any]] = set()
        self._loop = LoopThread()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run the work on the loop, until it is done or the parts are stopped."""
        asked = self._loop.submit(work)
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        return asked

    async def validate(
        self, addresses: pl.DataFrame, *, mode: Mode, deadline: float | None, max_age: float
    ) -> pl.DataFrame:
        """Judge every address now, slice by slice: nobody comes back for the rest.

        Takes frames.ADDRESSES, in the order of their numbers, and returns frames.VERDICTS, in the same order.
        """
        import polars as pl  # noqa: PLC0415 - frames take time to load

        from mailsift.pipeline.frames import VERDICTS  # noqa: PLC0415 - as above
        from mailsift.pipeline.validator import ValidationRequest  # noqa: PLC0415 - as above

        async with self._opening:
            validator = self._validator = self._validator or await self._container.validator()
        ends_at = math.inf if deadline is None else asyncio.get_running_loop().time() + deadline

        async def judge(part: pl.DataFrame) -> pl.DataFrame:
            async with self._turn:
                request = ValidationRequest(mode, max_age=max_age)
                result = await validator.validate_until(part, request, ends_at)
            return result.finished.sort("n").select(*VERDICTS)

        parts = await asyncio.gather(*map(judge, addresses.iter_slices(_SLICE)))
        return pl.concat([pl.DataFrame(schema=dict(VERDICTS)), *parts])

    def stop(self) -> None:
        """Close the parts; a forked child leaves them alone, as they are its parent's."""
        if os.getpid() == self._process:
            for asked in list(self._asked):
                asked.cancel()
            self._loop.run(self._closing.aclose())
            self._loop.close()


class Checker:
    """Checks addresses in this process, and remembers what it learned of domains and mailboxes.

    For programs with options of their own, or that say when everything is to be closed; `mailsift.check` and
    its siblings use one that lives as long as the process. Any number of threads and event loops may use it
    at a time. In a process forked from this one it knows nothing.

        >>> from mailsift import Checker, VerdictPolicy
        >>> with Checker(policy=VerdictPolicy(disposable_invalid=True)) as checker:
        ...     str(checker.check("jane@mailinator.com", mode="fast").status)
        'invalid'

    Args:
        options: see CheckerOptions.

    Raises:
        MailsiftError: `bad_settings`; at the first check `bad_overrides`, `dns_servers_invalid`.
        TypeError: an option that is none.
    """

    def __init__(self, **options: Unpack[CheckerOptions]) -> None:
        _check_names(options, CheckerOptions)
        self._settings = _settings(options)
        self._other = OtherParts(policy=options.get("policy"))
        self._closed = False
        self._begin()
        _beginners[self] = Checker._begin

    def _begin(self) -> None:
        """Begin with nothing known, no loop, and a lock that nobody holds."""
        self._lock = threading.Lock()
        self._closing = AsyncExitStack()
        self._container = Container(self._settings, self._closing, other=self._other)
        self._running: _LiveParts | None = None
        self._stop: weakref.finalize[Any, Any] | None = None

    def check(self, address: str, **options: Unpack[CallOptions]) -> CheckResult:
        """Return the verdict on one address.

        Args:
            address: any text.
            options: see CallOptions.

        Raises:
            MailsiftError: `unknown_mode`, `not_text`, `checker_closed`, `forked_with_frames`.
            TypeError: an option that is none, or seconds that are no number.
        """
        text = _text(address)
        if _mode(options) is Mode.FAST:
            return self._check_fast(text)
        return _only_result(self.check_many([text], **_for_one(options)))

    async def acheck(self, address: str, **options: Unpack[CallOptions]) -> CheckResult:
        """Do what `check` does, without keeping the event loop waiting."""
        text = _text(address)
        if _mode(options) is Mode.FAST:
            return self._check_fast(text)
        return _only_result(await self.acheck_many([text], **_for_one(options)))

    def check_many(
        self, addresses: Any, *, column: str = "", prefix: str = "", **options: Unpack[CallOptions]
    ) -> Any:
        """Return the verdicts on many addresses, each asked about once, in their order.

            >>> import polars as pl
            >>> guests = pl.DataFrame({"name": ["Jane"], "email": ["jane.doe@example.com"]})
            >>> mailsift.check_many(guests, column="email", mode="fast").columns[:4]
            ['name', 'email', 'address', 'catch_all']

        Args:
            addresses: an iterable of texts, or a series, array, frame or table of polars, pandas or pyarrow.
                What is no text counts as an empty one.
            column: of a frame: the name of the column with the addresses; "" to find it, by name or content.
            prefix: goes before the names of the columns that are made.
            options: see CallOptions.

        Returns:
            A frame of the same family (polars for a plain iterable): the columns that were there, the
            canonical `address` and the 13 fields.

        Raises:
            MailsiftError: what `check` raises; `not_a_list`, `column_not_found`, `no_address_column`,
                `column_taken`.
        """
        self._check_usable()
        numbered = _number_given(addresses, column, prefix)
        return numbered.with_verdicts(_wait(self._submit(numbered.distinct, options)))

    async def acheck_many(
        self, addresses: Any, *, column: str = "", prefix: str = "", **options: Unpack[CallOptions]
    ) -> Any:
        """Do what `check_many` does, without keeping the event loop waiting."""
        self._check_usable()
        numbered = await asyncio.to_thread(_number_given, addresses, column, prefix)
        verdicts = await _awaited(self._submit(numbered.distinct, options))
        return await asyncio.to_thread(numbered.with_verdicts, verdicts)

    def close(self) -> None:
        """Release sockets and the thread; whoever still waits for verdicts gets `checker_closed`."""
        with self._lock:
            self._closed = True
            stop, self._running, self._stop = self._stop, None, None
        if stop is not None:
            stop()

    async def aclose(self) -> None:
        """Do what `close` does, without keeping the event loop waiting."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_fast(self, text: str) -> CheckResult:
        if self._closed:
            raise _closed_error()
        fields = validate_fast(text, self._container.lists, self._container.policy)
        return CheckResult.of(parse_cell(text).address, fields)

    def _check_usable(self) -> None:
        if self._closed:
            raise _closed_error()
        if _Frames.lost:
            text = "This process was forked from one that had used polars, whose threads no fork survives."
            raise MailsiftError("forked_with_frames", f"{text} Start it with spawn or forkserver.")

    def _submit(self, distinct: pl.DataFrame, options: CallOptions) -> Future[pl.DataFrame]:
        mode, max_age = _mode(options), options.get("max_age")
        if mode is Mode.DEEP:
            _warn_of_deep()
        age = self._settings.max_age if max_age is None else max_age
        with self._lock:
            if self._closed:
                raise _closed_error()
            if self._running is None:
                self._running = _LiveParts(self._container, self._closing)
                self._stop = weakref.finalize(self, self._running.stop)
            running = self._running
            return running.submit(
                running.validate(distinct, mode=mode, deadline=options.get("deadline"), max_age=age)
            )


def check(address: str, **options: Unpack[Options]) -> CheckResult:
    """Return the verdict on one address; see `Checker.check`.

        >>> mailsift.check("info@mailinator.com", mode="fast").result
        <Result.DISPOSABLE: 'disposable'>

    Args:
        address: any text.
        options: see CallOptions and CheckerOptions.
    """
    return _shared(options).check(address, **_call_options(options))


async def acheck(address: str, **options: Unpack[Options]) -> CheckResult:
    """Do what `check` does, without keeping the event loop waiting."""
    return await _shared(options).acheck(address, **_call_options(options))


def check_many(addresses: Any, *, column: str = "", prefix: str = "", **options: Unpack[Options]) -> Any:
    """Return the verdicts on many addresses; see `Checker.check_many`.

    >>> mailsift.check_many(["a@example.com", "no address"], mode="fast").select("address", "score").rows()
    [('a@example.com', 60), ('no address', 0)]
    """
    return _shared(options).check_many(addresses, column=column, prefix=prefix, **_call_options(options))


async def acheck_many(
    addresses: Any, *, column: str = "", prefix: str = "", **options: Unpack[Options]
) -> Any:
    """Do what `check_many` does, without keeping the event loop waiting."""
    checker = _shared(options)
    return await checker.acheck_many(addresses, column=column, prefix=prefix, **_call_options(options))


_shared_checkers: dict[tuple[Any, ...], Checker] = {}
"""The checkers of the functions above, by their options; they live as long as the process."""
deep_was_said = threading.Event()


def _shared(options: Options) -> Checker:
    _check_names(options, Options)
    own: CheckerOptions = {
        "resolvers": _resolvers(options),
        "policy": options.get("policy"),
        "redis_url": options.get("redis_url"),
        "overrides": options.get("overrides"),
    }
    key = tuple(own.values())
    if (checker := _shared_checkers.get(key)) is None:
        checker = _shared_checkers.setdefault(key, Checker(**own))
    return checker


def _call_options(options: Options) -> CallOptions:
    call = {name: value for name, value in options.items() if name in CallOptions.__annotations__}
    return cast("CallOptions", call)


def _for_one(options: CallOptions) -> CallOptions:
    return options if options.get("deadline") is not None else {**options, "deadline": _ONE_SECONDS}


def _settings(options: CheckerOptions) -> Settings:
    given: dict[str, object] = {
        "dns_servers": tuple(map(_with_port, _resolvers(options))),
        "redis_url": options.get("redis_url"),
        "overrides": options.get("overrides"),
    }
    return Settings.from_env(**{name: value for name, value in given.items() if value})


def _resolvers(options: CheckerOptions) -> tuple[str, ...]:
    given = options.get("resolvers") or ()
    return (given,) if isinstance(given, str) else tuple(map(str, given))


def _with_port(resolver: str) -> str:
    address = read_address(resolver)
    if address is None:
        return resolver
    return f"{address}:53" if address.version == 4 else f"[{address}]:53"


def _check_names(options: Mapping[str, object], kind: type) -> None:
    """Refuse an unknown option as Python does: one that is misspelt would be as good as not given."""
    unknown = options.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"mailsift got an unexpected option {min(unknown)!r}")


def _mode(options: CallOptions) -> Mode:
    """Return the mode of a call, once its options are known to be such."""
    _check_names(options, CallOptions)
    for name in ("deadline", "max_age"):
        seconds = options.get(name)
        if not isinstance(seconds, int | float | None):
            raise TypeError(f"{name} must be seconds, as a number, not {type(seconds).__name__}")
    try:
        return Mode(options.get("mode", Mode.MEDIUM))
    except ValueError:
        raise MailsiftError("unknown_mode", "The mode must be fast, medium or deep.") from None


def _text(address: object) -> str:
    if not isinstance(address, str):
        raise MailsiftError("not_text", f"An address must be a string, not {type(address).__name__}.")
    return writable(address)


def writable(text: str) -> str:
    """Return the text, "" for one that no file can hold: it has halves of characters in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return ""
    return text


def _only_result(frame: pl.DataFrame) -> CheckResult:
    fields = frame.row(0, named=True)
    return CheckResult.of(fields.pop("address"), fields)


def _number_given(addresses: Any, column: str, prefix: str) -> Any:
    from mailsift.library.frames import number_given  # noqa: PLC0415 - frames take time to load

    return number_given(addresses, column, prefix)


def _wait(verdicts: Future[pl.DataFrame]) -> pl.DataFrame:
    try:
        return verdicts.result()
    except CancelledError:
        raise _closed_error() from None
    except BaseException:
        verdicts.cancel()
        raise


async def _awaited(verdicts: Future[pl.DataFrame]) -> pl.DataFrame:
    try:
        return await asyncio.wrap_future(verdicts)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _closed_error() from None


def _log_as_python_does() -> None:
    """Send what we log to `logging`, where the program has not said what becomes of it: not to its output."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


def _closed_error() -> MailsiftError:
    return MailsiftError("checker_closed", "This checker has been closed.")


def _warn_of_deep() -> None:
    if not deep_was_said.is_set():
        deep_was_said.set()
        warnings.warn(_DEEP, DeepModeWarning, stacklevel=4)


# What a fork leaves of us: no thread but the one that forked, so no event loop and no frames.

_TASKS: Final = Path("/proc/self/task")
_WORKER: Final = "polars-"  # and a number: how polars names the threads it computes with

_beginners: weakref.WeakKeyDictionary[Checker, Callable[[Checker], None]] = weakref.WeakKeyDictionary()
"""What every child does with them that is forked while they live."""
_left_behind: list[Any] = []
"""What belongs to the parent: kept, because to collect it would close what the parent uses."""


class _Frames:
    """Whether polars had threads before the fork, and whether this process lost them: frames would wait."""

    had_threads = False
    lost = False


def _note_threads() -> None:
    _Frames.had_threads = "polars" in sys.modules and _has_workers()


def _has_workers() -> bool:
    try:
        names = [(task / "comm").read_text() for task in _TASKS.iterdir()]
    except OSError:
        return True  # nobody can tell here
    return any(name.startswith(_WORKER) and name.strip()[len(_WORKER) :].isdecimal() for name in names)


def _begin_again() -> None:
    _Frames.lost = _Frames.lost or _Frames.had_threads
    for one, begin in list(_beginners.items()):
        _left_behind.append(dict(vars(one)))
        begin(one)


os.register_at_fork(before=_note_threads, after_in_child=_begin_again)
