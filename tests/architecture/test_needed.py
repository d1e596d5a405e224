"""What a test run leaves out, it says, and leaves nothing out when everything is required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.needs("no-such-program")
def test_that_needs_something(): ...

def test_that_needs_nothing(): ...
"""


def run(folder: Path, *options: str, required: bool) -> subprocess.CompletedProcess[str]:
    (folder / "test_two.py").write_text(TESTS)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.needed",
            "-p",
            "no:cacheprovider",
            *options,
            str(folder),
        ],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "MAILSIFT_REQUIRE_JUDGES": f"{required:d}"},  # noqa: TID251 - for a child
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["one process", "two processes"])
def test_what_is_left_out_is_said_whoever_runs_the_tests(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run(tmp_path, *options, required=False)
    assert ran.returncode == 0
    assert "NOT TESTED" in ran.stdout
    assert "no-such-program: 1 tests were left out; apt-get install no-such-program" in ran.stdout
    assert "1 passed" in ran.stdout


def test_where_everything_is_required_a_lack_fails(tmp_path: Path) -> None:
    ran = run(tmp_path, required=True)
    assert ran.returncode == 1
    assert "here is no no-such-program" in ran.stdout
    assert "1 passed, 1 error" in ran.stdout
