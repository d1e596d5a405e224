"""`mailsift check --mode fast` starts no server and loads nothing it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child_processes import environment_for

HEAVY = {"polars", "sqlalchemy", "psycopg", "redis", "celery", "fastapi", "pycares", "uvloop"}
REPAIRED = "E-mail: ann at example dot com"
_CHECK = """
import json, sys
from mailsift.cli import main
from tests.support.child_processes import environment_for
sys.argv = ["mailsift", "check", "--mode", "fast", "--json", "--repair", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(name for name, module in sys.modules.items() if hasattr(module, "__file__"))))
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    home = tmp_path_factory.mktemp("home")
    ran = subprocess.run(
        [sys.executable, "-c", _CHECK, "Jane@hotnail.com", "info@mailinator.com", "nonsense", REPAIRED],
        capture_output=True,
        env=environment_for({"MAILSIFT_HOME": str(home), "HOME": str(home)}),
        cwd=Path(__file__).parents[3],
        text=True,
        timeout=60,
        check=True,
    )
    assert list(home.iterdir()) == []
    return ran.stdout.splitlines()


def test_every_address_gets_its_verdict(lines: list[str]) -> None:
    verdicts = [json.loads(line) for line in lines[:-1]]
    assert [verdict["email"] for verdict in verdicts] == [
        "Jane@hotnail.com",
        "info@mailinator.com",
        "nonsense",
        REPAIRED,
    ]
    assert [verdict["result"] for verdict in verdicts] == ["passed", "disposable", "syntax_error", "passed"]
    assert verdicts[0]["suggestion"] == "Did you mean jane@hotmail.com?"
    assert verdicts[3]["mailsift_address"] == "ann@example.com"
    assert verdicts[3]["suggestion"] == "Validated as ann@example.com."


def test_neither_frames_nor_database_nor_redis_are_loaded(lines: list[str]) -> None:
    assert HEAVY & {name.partition(".")[0] for name in json.loads(lines[-1])} == set()
