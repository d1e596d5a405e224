"""House rules that a machine can check; the import rules are import-linter's (pyproject.toml)."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from mailsift.settings import Settings
from pipeline.verdict import Result

ROOT = Path(__file__).parents[2]
ROOMS = ("mailsift", "api", "jobs", "events", "storage", "pipeline", "sandbox")
LONGEST_FILE = 300


def tracked(*patterns: str) -> list[Path]:
    """Files git knows of, also those it is about to."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.splitlines() if (ROOT / name).is_file()]


def rooms() -> list[str]:
    return [name for name in ROOMS if (ROOT / name / "__init__.py").exists()]


def test_no_file_is_too_long_to_read() -> None:
    files = tracked(*(f"{folder}/*.py" for folder in (*rooms(), "tests", "benchmarks")))
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert len(lengths) > 100
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


@pytest.mark.parametrize("room", rooms())
def test_every_module_says_in_one_line_what_it_is_for(room: str) -> None:
    for path in tracked(f"{room}/*.py"):
        assert path.read_text().startswith('"""'), path


def test_the_wheel_holds_every_room_and_the_linters_know_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert set(project["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(rooms())
    assert set(project["importlinter"]["root_packages"]) == set(rooms())
    assert set(project["coverage"]["run"]["source"]) == set(rooms())


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
