"""`mailsift outcomes` and `mailsift suppressions`: told, looked up and taken along from the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mailsift.settings import Settings
from tests.support.commands import Keyboard

TOLD = """\
email,event,reason
ann@example.com,delivered,
bob@example.com,bounced,550 5.1.1 user unknown
cy@example.com,complained,
nobody,delivered,
"""


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings()


def test_a_file_is_told_once_and_to_an_account_that_exists(
    settings: Settings, keyboard: Keyboard, tmp_path: Path
) -> None:
    file = tmp_path / "told.csv"
    file.write_text(TOLD)
    words = ("outcomes", "import", str(file), "--account", "acme")
    mistyped = keyboard.type(settings, *words)
    assert (mistyped.status, "account_not_found" in mistyped.err) == (2, True)
    assert keyboard.type(settings, "keys", "create", "--account", "acme").status == 0
    assert "3 outcomes taken, 0 known already, 1 not readable" in keyboard.type(settings, *words).err
    assert "0 outcomes taken, 3 known already, 1 not readable" in keyboard.type(settings, *words).err


def test_the_list_of_whom_not_to_send_to_is_kept_in_the_terminal(
    settings: Settings, keyboard: Keyboard, tmp_path: Path
) -> None:
    def suppressions(*words: str) -> str:
        typed = keyboard.type(settings, "suppressions", *words, "--account", "acme")
        assert typed.status == 0, typed.err
        return typed.out

    assert keyboard.type(settings, "suppressions", "list", "--account", "acme").status == 2
    assert keyboard.type(settings, "keys", "create", "--account", "acme").status == 0
    file = tmp_path / "list.json"
    file.write_text('{"emailAddress": "dora@example.com", "reason": "COMPLAINT"}\n')
    suppressions("add", "Ann@Example.com", "bob@example.com", "--reason", "unsubscribed")
    suppressions("import", str(file))
    suppressions("remove", "BOB@example.com")
    assert suppressions("list", "--email", "bob@example.com") == ""
    listed = {tuple(line.split()[:2]) for line in suppressions("list").splitlines()}
    assert listed == {("ann@example.com", "unsubscribed"), ("dora@example.com", "complained")}
    assert suppressions("export", "--format", "sendgrid").startswith("email,created\n")
    assert '{"emailAddress": "dora@example.com", "reason": "COMPLAINT"}' in suppressions(
        "export", "--format", "ses"
    )
