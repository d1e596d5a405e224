"""Lists and the places their results go to; what cannot work is told before anything is loaded or started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mailsift.cli.options import without_broken_bytes
from mailsift.cli.streams import check_out
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
    pairs = [(source, _output_of(source, output, many=len(sources) > 1)) for source in sources]
    for _, out in pairs:
        if is_place(out):
            sink = parse_sink(out)
            if not sink.is_database:
                format_of(Path(sink.label))
        elif out != PIPE:
            check_writable(Path(out))
        else:
            check_out()
    _check_apart(pairs)
    return pairs


def _check_apart(pairs: list[tuple[str, str]]) -> None:
    """Refuse a result in place of a list, its own or another one, and two results in one place."""
    lists, results = {_identity(source) for source, _ in pairs}, set[object]()
    for source, out in pairs:
        if (place := _identity(out)) in lists and out != PIPE:
            raise MailsiftError("output_is_input", f"The result of {name_of(source)} would overwrite a list.")
        if place in results:
            text = f"Two results would be written to {out}: the lists have one name. Give each its --output."
            raise MailsiftError("output_not_writable", text)
        results.add(place)


def _identity(text: str) -> object:
    """Return what is the same for two names of one file, or of one place."""
    if text == PIPE or is_place(text):
        return text
    try:
        found = Path(text).stat()
    except OSError:  # not there yet
        return os.path.realpath(text)
    return found.st_dev, found.st_ino


def _output_of(source: str, output: str, *, many: bool) -> str:
    """Return where the result of a source goes: what was asked for, or in that folder, which is there."""
    beside = f"{name_of(source)}.mailsift.csv"
    if not output:
        if source == PIPE and not many:
            return PIPE
        return beside if is_place(source) or source == PIPE else f"{source}.mailsift.csv"
    if is_place(output) and output.endswith("/"):
        return output + beside
    if not is_place(output) and output != PIPE and os.path.isdir(output):  # noqa: PTH112 - no to a name too long
        return str(Path(output) / beside)
    if output.endswith("/"):
        raise MailsiftError("output_not_writable", f"There is no folder {output}.")
    if many:
        text = f"With several lists, --output must be a folder, and {output} is none."
        raise MailsiftError("output_not_writable", text)
    return output


def check_writable(out: Path) -> None:
    """Find out before the work, not after it, that the result could not be written.

    Raises:
        MailsiftError: `unknown_export_format`, `output_not_writable`.
    """
    format_of(out)
    try:
        hopeless = out.is_dir() or not os.access(out.resolve().parent, os.W_OK)
    except (OSError, RuntimeError):  # a name too long for a file, links that lead to each other
        hopeless = True
    if hopeless:
        raise MailsiftError("output_not_writable", f"Can’t write to {out}.")


def name_of(source: str) -> str:
    """Return what the list of a source is called."""
    if source == PIPE:
        return "stdin"
    return without_broken_bytes(parse_source(source).name if is_place(source) else Path(source).name)
