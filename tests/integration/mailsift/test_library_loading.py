"""`import mailsift`, in interpreters of its own: what it loads, and what a fork leaves of it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def python(program: str) -> str:
    """Run a program in a process of its own and return what it printed."""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_importing_it_loads_neither_frames_nor_settings_and_starts_nothing() -> None:
    printed = python(
        "import sys, mailsift, threading\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'polars', 'pydantic', 'asyncio', 'subprocess', 'structlog', 'sqlalchemy'}),"
        " threading.active_count())"
    )
    assert printed.split() == ["[]", "1"]


@pytest.mark.parametrize("order", ["import mailsift\nimport polars", "import polars\nimport mailsift"])
def test_polars_gets_its_namespace_whichever_is_imported_first(order: str) -> None:
    printed = python(
        f"{order}\n"
        "frame = polars.DataFrame({'email': ['a@example.com']})\n"
        "print(frame.mailsift.check('email', mode='fast')['result'].item())\n"
        "print(frame['email'].mailsift.check(mode='fast')['status'].item())\n"
        "import importlib.resources\n"
        "print(importlib.resources.files(polars).is_dir(), polars.__spec__.loader is polars.__loader__)"
    )
    assert printed.split() == ["passed", "valid", "True", "True"]


FORKS = """
import os, mailsift
def child(work):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = work()
        except mailsift.MailsiftError as error:
            text = error.code
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    print(os.fdopen(reading).read(), os.waitpid(pid, 0)[1])
fast = lambda: str(mailsift.check("a@example.com", mode="fast").result)
many = lambda: mailsift.check_many(["a@example.com"], mode="fast")["result"].item()
fast()
child(many)
many()
child(fast)
child(many)
print(many())
"""


def test_a_forked_child_checks_addresses_and_says_when_it_cannot() -> None:
    assert python(FORKS).splitlines() == ["passed 0", "passed 0", "forked_with_frames 0", "passed"]
