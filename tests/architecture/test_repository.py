"""Rules that a machine can check; the import rules are import-linter's (pyproject.toml)."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from mailsift.pipeline.verdict import Result
from mailsift.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDERS = ("mailsift", "api", "accounts", "jobs", "events", "storage", "pipeline", "sandbox")


def tracked(*patterns: str) -> list[Path]:
    """Files git knows of, also those it is about to."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.splitlines() if (ROOT / name).is_file()]


def folders() -> list[str]:
    return [name for name in FOLDERS if (ROOT / name / "__init__.py").exists()]


@pytest.mark.parametrize("folder", folders()[1:])
def test_every_folder_at_the_top_is_imported_from_below_mailsift(folder: str) -> None:
    assert (ROOT / "mailsift" / folder).readlink() == Path("..", folder)
    assert (ROOT / "mailsift" / folder).resolve() == ROOT / folder


def test_no_two_classes_have_one_name() -> None:
    sources = (path.read_text() for path in tracked(*(f"{folder}/*.py" for folder in folders())))
    names = Counter(name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE))
    assert [name for name, times in names.items() if times > 1] == []


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5, Debian's among them, matches such a group wrongly (gh-106052)."""
    possessive = re.compile(r"[^\\(]\)(?:[*+?]|\{+\d*,?\d*\}+)\+|\(\?>")
    found = [
        path.name
        for path in tracked(*(f"{name}/*.py" for name in folders()))
        if possessive.search(path.read_text())
    ]
    assert found == []


def test_the_lock_pins_every_package_with_hashes_and_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([A-Za-z0-9_.-]+(?:\[[a-z,]+\])?)==", lock, re.MULTILINE)
    assert len(pins) > 50
    blocks = re.split(r"^(?=[A-Za-z0-9_.-]+(?:\[[a-z,]+\])?==)", lock, flags=re.MULTILINE)[1:]
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert re.findall(r"https?:|file://|--index|--find-links|--extra-index", lock) == []


def test_no_other_lock_file_is_there() -> None:
    others = tracked("*.lock", "*lock.json", "*lock.yaml", "*requirements*.txt")
    assert [path.name for path in others] == ["requirements.lock"]


def test_the_readme_lists_every_setting_as_it_is() -> None:
    readme = (ROOT / "README.md").read_text()
    for variable, default, meaning in Settings.describe():
        assert f"| `{variable}` | {f'`{default}`' if default else ''} | {meaning} |" in readme, variable


def test_the_readme_names_every_result() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [result.value for result in Result if f"`{result.value}`" not in readme] == []
