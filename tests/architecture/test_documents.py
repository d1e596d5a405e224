"""What the documents say of the code is so."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mailsift.cli import app
from mailsift.settings import Settings

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
WORDS = re.findall(r"^\| ([^|]+?) \| [^|]+ \| `([^`:]+)(?::(\w+))?` \|$", GLOSSARY, re.MULTILINE)
GUARANTEES = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "guarantees.md").read_text())


def test_a_word_is_explained_once() -> None:
    words = [part.strip() for word, _, _ in WORDS for part in word.split(",")]
    assert len(words) > 50
    assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize(("word", "place", "name"), WORDS)
def test_a_word_of_the_glossary_lives_where_it_says(word: str, place: str, name: str) -> None:
    code = (ROOT / place).read_text()
    assert not name or re.search(rf"^class {name}\b", code, re.MULTILINE), word


@pytest.mark.parametrize(
    "document",
    ["README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))],
)
def test_files_that_a_document_names_are_there(document: str) -> None:
    path = next(found for found in (ROOT / document, ROOT / "docs" / document) if found.exists())
    folders = "accounts|api|benchmarks|deploy|docs|events|jobs|mailsift|pipeline|sandbox|storage|tests"
    named = set(
        re.findall(rf"`((?:{folders})/[\w./-]+\.(?:py|md|lua|html|toml|yaml|yml|tsv))", path.read_text())
    )
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(("place", "name"), GUARANTEES)
def test_the_test_of_a_guarantee_is_there(place: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / place).read_text(), re.MULTILINE)


def test_every_guarantee_names_its_test() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    rows = [
        line
        for line in page.splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| promise"))
    ]
    assert len(rows) > 20
    assert [row for row in rows if "::test_" not in row] == []


def texts_of_code() -> Iterator[tuple[str, str]]:
    """Yield what the product says: its templates, and every text of its code that is no docstring."""
    folders = ("mailsift", "api", "accounts", "jobs", "events", "storage", "pipeline")
    for folder in folders:
        for page in sorted((ROOT / folder).glob("**/*.html")):
            yield page.name, page.read_text()
        for path in sorted((ROOT / folder).glob("**/*.py")):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            loose = {node.value for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in loose:
                    yield path.name, node.value


def test_a_setting_is_named_as_people_set_it() -> None:
    """Who is told to set MAIL_FROM sets MAIL_FROM, and nothing changes; settings.py is the table of names."""
    names = "|".join(name.upper() for name in Settings.model_fields if "_" in name)
    bare = re.compile(rf"(?<![\w-])(?:{names})\b")
    found = {(place, name) for place, text in texts_of_code() for name in bare.findall(text)}
    assert {one for one in found if one[0] != "settings.py"} == set()


def commands_named() -> list[tuple[str, str]]:
    """Return every command that a document shows, in its text or as a line of a shell."""
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").glob("*.md"),
    ]
    texts = {page.name: page.read_text() for page in sorted(pages)}
    spans = re.compile(r"`mailsift ([a-z][^`\n]*)`|^(?:\.venv/bin/)?mailsift ([a-z][^\n]*)", re.MULTILINE)
    return [(name, span or line) for name, text in texts.items() for span, line in spans.findall(text)]


@pytest.mark.parametrize(("document", "typed"), dict.fromkeys(commands_named()))
def test_a_command_that_a_document_shows_can_be_typed(document: str, typed: str) -> None:
    """Commands and options are there, and an option that takes something shows what."""
    words = shlex.split(re.split(r" [|>] ", typed)[0], comments=True)
    commands: list[Any] = [get_command(app)]
    while words and hasattr(commands[0], "commands"):  # `ops top|jobs` are two
        names = words.pop(0).split("|")
        commands = [commands[0].get_command(None, name) for name in names]
        assert None not in commands, f"{document}: there is no {names}"
    options = {name: one for command in commands for one in command.params for name in one.opts}
    for word, after in pairwise([*words, ""]):
        if word.startswith("-") and word != "-":
            option = options.get(word.partition("=")[0])
            assert option, f"{document}: {typed} has no {word}"
            assert option.is_flag or "=" in word or after, f"{document}: {word} of {typed} takes something"
