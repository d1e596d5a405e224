"""Break the product in small ways, one at a time, and see whether its tests notice: `make mutate`.

Comparisons, constants, and/or, removed calls, pieces of SQL and of Lua. A file is changed where it lies and
put back afterwards, whatever happens; files with changes of your own are refused. The same seed breaks the
same places. What survives is printed for somebody to judge: some breakages make no difference.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.workers import ROOT

SUBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "pipeline/verdict.py": (
        "tests/unit/pipeline/test_judge.py",
        "tests/unit/pipeline/test_verdicts.py",
    ),
    "pipeline/dns/rules.py": ("tests/unit/pipeline/test_dns_rules.py",),
    "pipeline/guard.py": ("tests/unit/pipeline/test_guard.py",),
    "pipeline/probe/session.py": (
        "tests/unit/pipeline/test_smtp_session.py",
        "tests/unit/pipeline/test_smtp_session_tls.py",
        "tests/unit/pipeline/test_probe_parts.py",
        "tests/unit/pipeline/test_prober_catch_all.py",
        "tests/integration/pipeline/test_session_oracle.py",
    ),
    "pipeline/syntax/address.py": (
        "tests/unit/pipeline/test_syntax_address.py",
        "tests/unit/pipeline/test_syntax_column.py",
        "tests/fuzz/test_foreign_texts.py",
    ),
    "pipeline/probe/breaker.py": ("tests/unit/pipeline/test_probe_breaker.py",),
    "jobs/intake/sniff.py": (
        "tests/unit/jobs/test_sniff.py",
        "tests/unit/jobs/test_intake_formats.py",
        "tests/integration/jobs/test_standing_reader.py",
    ),
    "jobs/intake/read_xlsx.py": (
        "tests/unit/jobs/test_intake_formats.py",
        "tests/unit/jobs/test_intake_xlsx.py",
        "tests/fuzz/test_foreign_files.py",
    ),
    "jobs/results/export.py": ("tests/unit/jobs/test_export.py", "tests/fuzz/test_foreign_texts.py"),
    "storage/redis/connection.py": (
        "tests/integration/storage/test_circuit_breaker.py",
        "tests/integration/storage/test_throttle_redis_gone.py",
        "tests/integration/storage/test_broker.py",
    ),
    "storage/lua/grant.lua": (
        "tests/integration/storage/test_throttle.py",
        "tests/integration/storage/test_throttle_blocked.py",
        "tests/integration/storage/test_throttle_keys.py",
        "tests/integration/storage/test_harvest_guard.py",
    ),
    "storage/lua/report.lua": (
        "tests/integration/storage/test_throttle.py",
        "tests/integration/storage/test_throttle_keys.py",
        "tests/integration/storage/test_throttle_blocked.py",
        "tests/integration/storage/test_harvest_guard.py",
        "tests/integration/storage/test_throttle_view.py",
    ),
    "storage/lua/renew.lua": (
        "tests/integration/storage/test_throttle.py",
        "tests/integration/storage/test_throttle_keys.py",
        "tests/integration/storage/test_harvest_guard.py",
    ),
    "storage/sql/chunks.py": (
        "tests/integration/jobs/test_chunk_rows.py",
        "tests/integration/jobs/test_sources.py",
        "tests/integration/jobs/test_fair_claims.py",
        "tests/integration/jobs/test_stop.py",
        "tests/integration/jobs/admin/test_operator_workers.py",
    ),
    "storage/sql/jobs.py": (
        "tests/integration/storage/test_job_rows.py",
        "tests/integration/storage/test_state_transitions.py",
        "tests/integration/jobs/test_chunk_rows.py",
        "tests/integration/jobs/test_fair_claims.py",
        "tests/integration/jobs/admin/test_operator_console.py",
        "tests/integration/jobs/admin/test_operator_orders.py",
        "tests/integration/storage/test_claims_keep_their_limit.py",
    ),
    "events/signing.py": ("tests/unit/events/test_signing.py",),
    "api/http/auth.py": (
        "tests/integration/api/test_api_keys.py",
        "tests/integration/api/test_api_traps.py",
        "tests/integration/api/test_api_widget.py",
        "tests/integration/api/test_api_audit.py",
        "tests/integration/api/test_doors.py",
    ),
}
"""What is broken, and the tests that ought to notice."""

HARMLESS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "pipeline/probe/breaker.py": (
        (
            "len(self._refusals_by_domain) >= _MAX",
            "(len(self._refusals_by_domain) > _MAX_DOMAINS)",
        ),  # one more
        ("len(self._accepting) >= _MAX", "(len(self._accepting) > _MAX_DOMAINS)"),  # same
        ("_answers_before > _MAX", "(self._answers_before >= _MAX_ANSWERS)"),  # one earlier
        ("self._doubted_from > 0", "(self._doubted_from > 1)"),  # no doubt begins as early
        ("_MAX_DOUBTS: Final", "101"),  # one more
    ),
    "jobs/results/export.py": (
        ("is_elementwise=True", "False"),  # all at once, or piece by piece
        ("strict=True", "False"),  # they have as many
        ("sheet: bool = False", "True"),  # where it is left out bytes are asked for, in a sheet the same
    ),
    "jobs/intake/read_xlsx.py": (
        ("_BLOCK = 1 << 18", "2"),  # how much is read at a time
        ("_BLOCK = 1 << 18", "37"),
        ("_BATCH = ", "40001"),
        ("== _BATCH", "(len(self._batch) != _BATCH)"),  # in more pieces
        ("parser.buffer_text = True", "False"),  # same
        ("ids[:1]", "2"),  # nobody has two
        ("self._in_cells = False", "True"),  # no cell has a style from behind those of cells
        ("len(place) > 9", "(len(place) >= 9)"),  # what Python would not read is far longer
        ("len(place) > 9", "19"),
    ),
    "pipeline/dns/rules.py": (("strict=True", "False"),),  # they have as many
    "storage/redis/connection.py": (
        ("_CONNECTIONS = 16", "33"),
        ("now < self._gone_until", "(now <= self._gone_until)"),  # the very moment
        ("Retry(NoBackoff()", "2"),  # how often at once, where once is enough
    ),
    "storage/sql/chunks.py": (
        ("ready_at <= clock_timestamp()", "<"),  # the very moment
        ("job.deadline_at <= clock_timestamp()", "<"),
        ("source_offset: int = 0", "1"),  # every plan says it
        ("MAX_ATTEMPTS: Final = 4", "5"),  # one more try
        ("live_sources: int = 1", "2"),  # every claim says it
        ("test: bool = False", "True"),
        ("ORDER BY account_vtime, j.small DESC", "ASC"),  # sorted again; only how soon the search ends
    ),
    "storage/sql/jobs.py": (
        ("ready_at <= clock_timestamp()", "<"),
        ("j.source_bytes <= :small_bytes", "<"),  # the very byte
        ("self.source_bytes <= SMALL_BYTES", "(self.source_bytes < SMALL_BYTES)"),  # the very byte
        ("_SHARDS = 8", "17"),  # how many rows a minute has
        ("job_id).limit(1)", "2"),  # one is enough to know
        ("job.c.expires_at < func", "(job.c.expires_at <= func.clock_timestamp())"),  # the very moment
    ),
    "pipeline/syntax/address.py": (  # what the short way leaves goes the exact one, to the same end
        ("> _LONGEST_INTERNATIONAL", "(len(text.encode()) >= _LONGEST_INTERNATIONAL)"),
        ("len(text.encode()) > 254", "509"),  # the library knows the limit, too
        ("strict=True", "False"),  # the canonical form is measured
        ("check_deliverability=False", "True"),  # nobody asks DNS where `.test` is let through
    ),
    "jobs/intake/sniff.py": (
        ("before + block[:2]", "3"),  # a longer overlap
        ("before = block[-2:]", "3"),
        ("HEAD_BYTES = ", "131073"),  # a longer beginning
        ("_SAMPLE_RECORDS = ", "401"),
        ("_BLOCK = 1 << 20", "2"),  # how much is read at a time
        ("high * 4 > len(head)", "(high * 4 >= len(head))"),  # the very share
        ("low * 20 < high", "(low * 20 <= high)"),
        ("odd > even", "(odd >= even)"),  # they never are as many
        ("unpacked > _BOMB_RATIO", "(unpacked >= _BOMB_RATIO * packed)"),  # the very ratio
        ("else 0, unpacked", "1"),  # fifty times nothing or fifty bytes
        ("most_common(1)", "2"),  # the first is taken
    ),
    "pipeline/probe/session.py": (
        ("answer.code >= 400 and", "(answer.code > 400)"),  # nobody says 400
        ("reply.code < 400 and", "(reply.code <= 400)"),
        ("if code >= 500", "(code > 500)"),  # nor 500 to RCPT
        ("self._pipelining = False", "True"),  # before it is known
        ("self._outstanding = 0", "1"),  # same
        ("return -1 if", "2"),  # no code of a reply
    ),
}
"""What was judged to make no difference: a piece of its line, and what stands there instead."""

_COMPARED: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_TEXTS: Final = tuple(
    (re.compile(pattern), other)
    for pattern, other in (
        (r" SKIP LOCKED", ""),
        (r"\bAND\b", "OR"),
        (r"\bOR\b", "AND"),
        (r"\bDESC\b", "ASC"),
        (r"<=", "<"),
        (r"(?<![<>=!~])<(?![=>])", ">"),
        (r"\bgreatest\b", "least"),
        (r"\bleast\b", "greatest"),
        (r"(?<=\w) \+ (?=\w)", " - "),
        (r"(?<=\w) - (?=\w)", " + "),
        (r"\bLIMIT \d+", "LIMIT 1"),
        (r"\band\b", "or"),
        (r"\bor\b", "and"),
        (r"~=", "=="),
        (r"(?<![=~<>])==(?!=)", "~="),
        (r"redis\.call\('(?:ZREM|DEL|HDEL|PEXPIRE|ZREMRANGEBYSCORE)'.*\)$", "do end"),
    )
)
"""In SQL and Lua: what is found, and what stands there instead."""
_LUA_ONLY: Final = re.compile(r"and|or|~=|\(\?<!\[=~|redis")
_SQL: Final = re.compile(r"\b(?:UPDATE|SELECT|INSERT|DELETE)\b")
_SMALL: Final = 8
"""A number below this means just itself; most others are sizes and times, of which one more is no harm."""
_SECONDS: Final = 30.0
"""That a run may take beside ten times what it takes without a breakage."""


@dataclass(frozen=True)
class Breakage:
    """One change: the text from `start` to `end` of the file becomes `instead`."""

    path: str
    line: int
    start: int
    end: int
    instead: str


def breakages(path: str) -> list[Breakage]:
    """Return every way in which a file can be broken, in its order."""
    source = (ROOT / path).read_text()
    found = _of_lua(path, source) if path.endswith(".lua") else _of_python(path, source)
    broken = {one for one in found if not _is_harmless(one, source)}
    return sorted(broken, key=lambda one: (one.start, one.end, one.instead))


def _of_lua(path: str, source: str) -> Iterator[Breakage]:
    code = re.sub(r"--.*", lambda comment: " " * len(comment[0]), source)
    for pattern, instead in _TEXTS:
        for place in re.finditer(pattern.pattern, code, re.MULTILINE):
            yield _at(path, source, place.start(), place.end(), instead)


def _of_python(path: str, source: str) -> Iterator[Breakage]:
    data, lines, starts = source.encode(), source.splitlines(), [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno and node.end_col_offset:
            if lines[node.lineno - 1].lstrip().startswith(("@dataclass", "@lru_cache")):
                continue  # frozen or not, nobody changes it; one more or less is remembered
            start, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
            if (instead := _broken(node)) is not None:
                yield _at(path, source, start, end, instead)
            elif isinstance(node, ast.Constant) and _SQL.search(source, start, end):
                yield from _of_sql(path, source, start, end)


def _broken(node: ast.expr | ast.stmt) -> str | None:
    """Return what stands instead of a piece of Python, None where we break nothing."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARED:
            return f"({ast.unparse(left)} {_COMPARED[type(operator)]} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            return "(" + word.join(f"({ast.unparse(value)})" for value in values) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(value=int() as value):
            return _other_number(value)
        case ast.Expr(value=ast.Call() | ast.Await()):
            return "pass"
        case _:
            return None


def _other_number(value: int) -> str:
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1 if abs(value) < _SMALL else value * 2 + 1)


def _of_sql(path: str, source: str, start: int, end: int) -> Iterator[Breakage]:
    for pattern, instead in _TEXTS:
        if not _LUA_ONLY.match(pattern.pattern.removeprefix(r"\b")):
            for found in pattern.finditer(source, start, end):
                yield _at(path, source, found.start(), found.end(), instead)


def _is_harmless(one: Breakage, source: str) -> bool:
    """Say whether nothing is broken by it."""
    before, line = source[one.start : one.end], source.splitlines()[one.line - 1]
    known = HARMLESS.get(one.path, ())
    return before == one.instead or any(piece in line and one.instead == instead for piece, instead in known)


def _at(path: str, source: str, start: int, end: int, instead: str) -> Breakage:
    return Breakage(path, source.count("\n", 0, start) + 1, start, end, instead)


def notices(breakage: Breakage, tests: Iterable[str], seconds: float) -> bool:
    """Break the file, run the tests and put it back; a test that never ends has noticed, too."""
    file = ROOT / breakage.path
    source = file.read_text()
    try:
        file.write_text(source[: breakage.start] + breakage.instead + source[breakage.end :])
        return not is_green(tests, seconds)
    finally:
        file.write_text(source)


def is_green(tests: Iterable[str], seconds: float) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: TID251 - for a child
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        try:
            return run.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            run.terminate()  # so that it stops its servers
            return False


def _is_changed(path: str) -> bool:
    asked = ["git", "status", "--porcelain", "--", path]
    return bool(subprocess.run(asked, cwd=ROOT, capture_output=True, check=True).stdout)


def judge_module(path: str, count: int, *, seed: int, ends: float) -> tuple[int, int]:
    """Try so many breakages of a file, if there is time; returns how many were noticed and tried."""
    began = time.monotonic()
    if not is_green(SUBJECTS[path], 600):
        raise SystemExit(f"{path}: its tests are red before anything is broken")
    most = 10 * (time.monotonic() - began) + _SECONDS
    every = breakages(path)
    chosen = random.Random(f"{seed} {path}").sample(every, min(count, len(every)))
    noticed = tried = 0
    for one in chosen:
        if time.monotonic() > ends:
            break
        tried += 1
        if notices(one, SUBJECTS[path], most):
            noticed += 1
        else:
            before = (ROOT / path).read_text()[one.start : one.end]
            _say(f"  {path}:{one.line}: {' '.join(before.split())} -> {one.instead}")
    return noticed, tried


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Print the share of breakages noticed, by file and over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="which of how many parts of the files, such as 2/5")
    parser.add_argument("--count", type=int, default=8, help="breakages of each file")
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("paths", nargs="*", help="only these files")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    paths = asked.paths or sorted(SUBJECTS)[part - 1 :: parts]
    if changed := [path for path in paths if _is_changed(path)]:
        raise SystemExit(f"These files have changes of your own: {', '.join(changed)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is broken is put back
    ends, totals = time.monotonic() + 60 * asked.minutes, [0, 0]
    for place, path in enumerate(paths):
        left = max(0.0, ends - time.monotonic()) / (len(paths) - place)
        noticed, tried = judge_module(path, asked.count, seed=asked.seed, ends=time.monotonic() + left)
        _say(f"{path}: {noticed} of {tried} noticed")
        totals = [totals[0] + noticed, totals[1] + tried]
    _say(f"over all: {totals[0]} of {totals[1]} noticed, {100 * totals[0] / max(1, totals[1]):.0f} %")


if __name__ == "__main__":
    main()
