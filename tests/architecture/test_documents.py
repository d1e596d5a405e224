"""What the documents say of the code is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
