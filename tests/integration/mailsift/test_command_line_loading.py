"""Commands that serve nobody load no web framework, be it by a part of the container that is made late."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mailsift.cli import COMMANDS
from mailsift.settings import Settings
from tests.support.child_processes import environment_for
from tests.support.sessions import PASSWORD

ADA: Final = "ada@example.org"
THAT_SERVE: Final = {"serve", "api", "mcp"}
TYPED: Final = (
    "migrate",
    "settings",
    f"check {ADA} --mode fast",
    "run list.csv --mode fast --output verdicts.csv",
    "jobs list",
    "schedules list",
    "keys create --account engines",
    "keys list --account engines",
    f"users create {ADA} --account engines --password-stdin",
    "users list",
    f"users link {ADA}",
    f"suppressions add {ADA} --account engines",
    "outcomes import outcomes.csv --account engines",
    "accuracy --account engines",
    "ops top --once",
    "ops accuracy",
    "ops throttles",
    "ops alarm-rules",
    "accounts delete engines --yes",
    "doctor",
)
THAT_STAY: Final = {"worker", "sweeper", "sandbox", "demo"}
"""They end only when they are told to, or late: here their modules are loaded."""

_PROGRAM: Final = """
import json, sys
import typer.main
from mailsift.cli import app, main

sys.stdout, report = sys.stderr, sys.stdout


def say(words, status):
    web = "mailsift.api", "fastapi", "starlette", "uvicorn", "jinja2"
    print(words, status, *(name for name in web if name in sys.modules), sep="|", file=report, flush=True)


typed, loaded = json.loads(sys.argv[1])
for words in typed:
    sys.argv = ["mailsift", *words.split()]
    try:
        main()
    except SystemExit as left:
        say(words, left.code)
for name in loaded:
    typer.main.get_command(app).get_command(None, name)
    say(name, 0)
"""


def test_no_command_but_those_that_serve_loads_the_web(
    make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    assert {words.split()[0] for words in TYPED} | THAT_STAY | THAT_SERVE == set(COMMANDS)
    (tmp_path / "list.csv").write_text(f"email\n{ADA}\n")
    (tmp_path / "outcomes.csv").write_text(f"email,event\n{ADA},delivered\n")
    settings = make_settings(worker_processes=1, dns_servers=("127.0.0.1:9",))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps((TYPED, sorted(THAT_STAY)))],
        input=PASSWORD,
        cwd=tmp_path,
        env=environment_for(settings.environment()),
        capture_output=True,
        text=True,
        check=True,
    )
    seen = [line.split("|") for line in done.stdout.splitlines()]
    assert [words for words, *_ in seen] == [*TYPED, *sorted(THAT_STAY)], done.stderr
    assert [words for words, status, *_ in seen if status not in {"0", "1"}] == [], done.stderr
    assert [(words, web) for words, _, *web in seen if web][:1] == [], "the first that loads it"
