"""Lists and the places their results go to; what cannot work is told before anything is loaded or started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mailsift.cli.options import without_broken_bytes
from mailsift.jobs.places.place import is_place, parse_sink, parse_source
from mailsift.jobs.results.export import format_of
from mailsift.pipeline.errors import MailsiftError

PIPE: Final = "-"


def pair(sources: list[str], output: str) -> list[tuple[str, str]]:
    """Return every list, once, with the place its result goes to; tell what cannot be before anything starts.

    Raises:
        MailsiftError: `bad_place`, `unknown_export_format`, `output_not_writable`, `output_is_input`.
    """
    sources = list(dict.fromkeys(sources))
    pairs = [(source, output_of(source, output, many=len(sources) > 1)) for source in sources]
    _refuse_same([out for _, out in pairs])
    for _, out in pairs:
        if is_place(out):
            sink = parse_sink(out)
            if not sink.is_database:
                format_of(Path(sink.name))
        elif out != PIPE:
            check_writable(Path(out))
            if any(_is_same(out, source) for source in sources):
                raise MailsiftError("output_is_input", "The result would overwrite the list.")
    return pairs


def _refuse_same(outs: list[str]) -> None:
    """Refuse that results of two lists, which are called alike in two folders, go to one place."""
    if twice := next((out for place, out in enumerate(outs) if out in outs[:place]), None):
        text = (
            f"Two lists would have their results in {Path(twice).name}: the second would overwrite the first."
        )
        raise MailsiftError("output_not_writable", text)


def _is_same(out: str, source: str) -> bool:
    return Path(out).exists() and Path(source).exists() and Path(out).samefile(source)


def output_of(source: str, output: str, *, many: bool) -> str:
    """Return where the result of a source goes: what was asked for, in that folder when there are many.

    Raises:
        MailsiftError: `output_not_writable` for many results in one file.
    """
    beside = f"{name_of(source)}.mailsift.csv"
    if not many:
        return output or (
            PIPE if source == PIPE else beside if is_place(source) else f"{source}.mailsift.csv"
        )
    if not output:
        return beside if is_place(source) or source == PIPE else f"{source}.mailsift.csv"
    if is_place(output) and output.endswith("/"):
        return output + beside
    if is_place(output) or not Path(output).is_dir():
        raise MailsiftError("output_not_writable", "With several lists, --output must be a folder.")
    return str(Path(output) / beside)


def check_writable(out: Path) -> None:
    """Find out before the work, not after it, that the result could not be written.

    Raises:
        MailsiftError: `unknown_export_format`, `output_not_writable`.
    """
    format_of(out)
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise MailsiftError("output_not_writable", f"Can’t write to {out}.")


def name_of(source: str) -> str:
    """Return what the list of a source is called."""
    if source == PIPE:
        return "stdin"
    return without_broken_bytes(parse_source(source).name if is_place(source) else Path(source).name)
