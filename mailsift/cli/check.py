"""`mailsift check`: one address or a few, right now."""

from __future__ import annotations

import asyncio
import codecs
import io
import json
import sys
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from mailsift.cli.options import ModeOption, without_broken_bytes
from mailsift.cli.terminal import STATUS_COLOURS, as_text, console, table_of, warning_line
from mailsift.jobs.columns import JUDGED_ADDRESS
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.single import validate_fast
from mailsift.pipeline.syntax.address import canonical_of
from mailsift.pipeline.verdict import Result, VerdictPolicy, with_repair
from mailsift.pipeline.wording import counted
from mailsift.settings import Settings

if TYPE_CHECKING:
    from rich.status import Status

    from mailsift.pipeline.validator import ValidationRequest

_PERSON_SECONDS = 60.0
_SCRIPT_SECONDS = 20.0
_SHOWN_EVERY = 0.5
"""How long a person waits who sees that something goes on, and how long a script does."""

Addresses = Annotated[
    list[str], typer.Argument(help="Addresses to check; - reads them from stdin, one per line.")
]


def check(  # noqa: PLR0913 - options of a command line
    addresses: Addresses,
    *,
    mode: ModeOption = Mode.DEEP,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    evidence: Annotated[bool, typer.Option("--evidence", help="Show the facts behind the verdict.")] = False,
    max_age: Annotated[
        float,
        typer.Option(
            "--max-age",
            min=0,
            metavar="SECONDS",
            help="Reuse mailbox verdicts younger than this; 0: always ask.",
        ),
    ] = 0.0,
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            min=1,
            metavar="SECONDS",
            help="Mailboxes whose turn has not come by then are not asked. On a terminal 60, else 20.",
            show_default=False,
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="If a text is not an address but clearly means one, check that one, and say so.",
        ),
    ] = False,
) -> None:
    """Check addresses now and print their verdicts.

    Nobody comes back later here: a server that says "try again later" gives `deferred`.
    """
    given = _from_stdin() if addresses == ["-"] else [without_broken_bytes(address) for address in addresses]
    if not given:
        return
    settings = Settings.from_env()
    lists = Lists.load(settings.overrides)
    repaired = [lists.repaired(text) if repair else "" for text in given]
    asked = [address or text for address, text in zip(repaired, given, strict=True)]
    if mode is Mode.FAST and not evidence:
        rows = _check_fast(settings, lists, asked)
    else:
        from mailsift.pipeline.validator import ValidationRequest  # noqa: PLC0415 - see _check_in_pipeline

        seconds = deadline or (_PERSON_SECONDS if sys.stderr.isatty() else _SCRIPT_SECONDS)
        request = ValidationRequest(mode, evidence=evidence, max_age=max_age, budget_s=seconds)
        rows = _check_in_pipeline(settings, asked, request)
    results = [
        {"email": text, JUDGED_ADDRESS: canonical_of(meant), **with_repair(row, address)}
        for text, meant, row, address in zip(given, asked, rows, repaired, strict=True)
    ]
    show = _print_json if as_json else _print_table
    show(results)


def _from_stdin() -> list[str]:
    text = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None) if line.strip()]


def _check_fast(settings: Settings, lists: Lists, given: list[str]) -> list[dict[str, Any]]:
    """Check by syntax and lists, without a server and without loading what frames or servers need."""
    policy = VerdictPolicy(disposable_invalid=settings.disposable_invalid)
    return [validate_fast(address, lists, policy) for address in given]


def _check_in_pipeline(
    settings: Settings, given: list[str], request: ValidationRequest
) -> list[dict[str, Any]]:
    # Only here: they load frames and the libraries of servers, a second of work that mode fast spares.
    import uvloop  # noqa: PLC0415

    from mailsift.cli.doctor import DISTRUSTED  # noqa: PLC0415
    from mailsift.runtime.embedded import installation  # noqa: PLC0415

    many = counted(len(given), "address")
    with installation(settings, database=False) as installed, console.status(f"Checking {many} ...") as line:
        rows, trusted = uvloop.run(_watched(_validate(installed, given, request), request, many, line))
    if not trusted:
        console.print(DISTRUSTED, soft_wrap=True)
    left = sum(row["result"] == Result.NOT_ASKED for row in rows)
    if left:
        console.print(
            f"{left:,} of {many} could not be asked in time: "
            "give more seconds with --deadline, or make it a job with mailsift run.",
            soft_wrap=True,
        )
    if any(row["result"] == Result.PROBE_UNAVAILABLE for row in rows):
        console.print(warning_line(Result.PROBE_UNAVAILABLE), soft_wrap=True)
    return rows


async def _watched(
    work: Coroutine[Any, Any, tuple[list[dict[str, Any]], bool]],
    request: ValidationRequest,
    many: str,
    line: Status,
) -> tuple[list[dict[str, Any]], bool]:
    """Do the work, and tell beside it how far it is; a line that nobody sees costs nothing."""
    started = time.monotonic()

    def show() -> None:
        line.update(
            f"Checking {many}: mail servers answered for {len(request.mailboxes_found):,}, "
            f"{time.monotonic() - started:.0f} of {request.budget_s:g} seconds"
        )

    async def keep_showing() -> None:
        while True:
            show()
            await asyncio.sleep(_SHOWN_EVERY)

    showing = asyncio.create_task(keep_showing())
    try:
        return await work
    finally:
        showing.cancel()
        show()


async def _validate(
    settings: Settings, given: list[str], request: ValidationRequest
) -> tuple[list[dict[str, Any]], bool]:
    """Return a row for every address, and whether a resolver could be trusted."""
    import polars as pl  # noqa: PLC0415 - see _check_in_pipeline

    from mailsift.container import open_container  # noqa: PLC0415
    from mailsift.jobs.intake.numbering import number_addresses  # noqa: PLC0415
    from mailsift.pipeline.frames import VERDICTS  # noqa: PLC0415

    numbers, distinct = number_addresses(pl.Series("raw", given, pl.String))
    async with open_container(settings) as container:
        validator = await container.validator()
        result = await validator.validate(distinct, request)
        trusted = request.mode is Mode.FAST or await container.domains.trust.ready()
    joined = numbers.to_frame("n").join(
        result.finished.select("n", *VERDICTS, "evidence"), on="n", how="left", maintain_order="left"
    )
    return joined.drop("n").to_dicts(), trusted


def _print_json(rows: list[dict[str, Any]]) -> None:
    """Print an object a line; letters stay as they are where they come out in UTF-8, which JSON is in."""
    escaped = codecs.lookup(sys.stdout.encoding).name != "utf-8"
    for row in rows:
        facts = row.pop("evidence", "")
        found = {"evidence": json.loads(facts)} if facts else {}
        print(json.dumps({**row, **found}, ensure_ascii=escaped))  # noqa: T201 - the command's output


def _print_table(rows: list[dict[str, Any]]) -> None:
    out = Console(emoji=False)
    table = table_of(["address"], overflow="fold")
    for name in ("status", "score", "result"):
        table.add_column(name, justify="right" if name == "score" else "left")
    table.add_column("reason", overflow="fold")
    for row in rows:
        status = Text(row["status"], style=STATUS_COLOURS[row["status"]])
        reason = f"{row['reason']} {row['suggestion']}".strip()
        table.add_row(
            as_text(_given_and_judged(row)), status, str(row["score"]), row["result"], as_text(reason)
        )
    out.print(table)
    for row in rows:
        if row.get("evidence"):
            out.print(Text("\n").append(as_text(_given_and_judged(row))), style="bold")
            out.print_json(row["evidence"])


def _given_and_judged(row: Mapping[str, str]) -> str:
    """Return what was given, and what was judged where that is not the same."""
    given, judged = row["email"], row[JUDGED_ADDRESS]
    return f"{given} → {judged}" if judged not in {"", given} else given
