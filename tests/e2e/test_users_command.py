"""`mailsift users`: people are made, listed, given links and removed from the terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from mailsift.settings import Settings
from tests.integration.api.conftest import running
from tests.support.commands import Keyboard
from tests.support.sessions import PASSWORD, browser, csrf_of, sign_in

ADA = "ada@example.com"


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(api_port=0, dns_servers=("127.0.0.1:9",), public_url="https://mailsift.example.com")


def enters(settings: Settings, email: str, password: str = PASSWORD) -> int:
    """Return the status of an attempt to sign in."""

    async def attempt() -> int:
        async with running(settings) as api, browser(api) as client:
            return (await sign_in(client, email, password)).status_code

    return asyncio.run(attempt())


def arrives(settings: Settings, link: str, password: str) -> int:
    """Return the status of taking a one-time link."""
    path, token = link.removeprefix("https://mailsift.example.com").split("?token=")

    async def attempt() -> int:
        async with running(settings) as api, browser(api) as client:
            page = await client.get(path, params={"token": token})
            form = {"csrf": csrf_of(page.text), "token": token, "password": password}
            return (await client.post(path, data=form)).status_code

    return asyncio.run(attempt())


def everybody(settings: Settings, keyboard: Keyboard) -> list[dict[str, object]]:
    typed = keyboard.type(settings, "users", "list", "--json")
    return [json.loads(line) for line in typed.out.splitlines()]


def test_a_person_with_a_password_from_stdin_can_sign_in(settings: Settings, keyboard: Keyboard) -> None:
    words = ("users", "create", "Ada@Example.com", "--account", "Engines", "--operator", "--password-stdin")
    typed = keyboard.type(settings, *words, stdin=PASSWORD.encode() + b"\n")
    assert (typed.status, typed.out) == (0, "")
    assert PASSWORD not in typed.err
    (ada,) = everybody(settings, keyboard)
    assert (ada["email"], ada["account"], ada["role"], ada["operator"]) == (ADA, "Engines", "owner", True)
    assert "password" not in ada
    assert enters(settings, ADA) == 303


def test_a_person_without_a_password_gets_a_link_on_stdout(settings: Settings, keyboard: Keyboard) -> None:
    typed = keyboard.type(settings, "users", "create", ADA, "--account", "Engines", "--role", "viewer")
    assert typed.status == 0
    link = typed.out.strip()
    assert link.startswith("https://mailsift.example.com/invite?token=")
    assert "shown only now" in typed.err
    assert everybody(settings, keyboard) == []
    assert arrives(settings, link, PASSWORD) == 303
    (ada,) = everybody(settings, keyboard)
    assert (ada["email"], ada["role"], ada["operator"]) == (ADA, "viewer", False)


def test_who_is_invited_and_has_not_joined_gets_no_link_to_a_new_password_but_is_known(
    settings: Settings, keyboard: Keyboard
) -> None:
    keyboard.type(settings, "users", "create", ADA, "--account", "engines")
    typed = keyboard.type(settings, "users", "link", ADA)
    assert (typed.status, typed.out) == (2, "")
    assert "person_not_found" in typed.err
    assert "invited" in typed.err
    assert "mailsift users create" in typed.err
    assert "invited" not in keyboard.type(settings, "users", "link", "eve@example.com").err


def test_a_lost_password_is_replaced_by_a_link(settings: Settings, keyboard: Keyboard) -> None:
    words = ("users", "create", ADA, "--account", "Engines", "--password-stdin")
    keyboard.type(settings, *words, stdin=PASSWORD.encode())
    typed = keyboard.type(settings, "users", "link", " ADA@example.com")
    assert typed.out.startswith("https://mailsift.example.com/password?token=")
    assert arrives(settings, typed.out.strip(), "another long password") == 303
    assert enters(settings, ADA, "another long password") == 303


def test_a_removed_person_is_nobody_and_the_last_owner_of_others_stays(
    settings: Settings, keyboard: Keyboard
) -> None:
    for email, role in ((ADA, "owner"), ("grace@example.com", "member")):
        words = ("users", "create", email, "--account", "Engines", "--role", role, "--password-stdin")
        keyboard.type(settings, *words, stdin=PASSWORD.encode())
    refused = keyboard.type(settings, "users", "remove", ADA)
    assert (refused.status, refused.err.split(":")[1].strip()) == (2, "last_owner")
    assert keyboard.type(settings, "users", "remove", "grace@example.com").status == 0
    assert keyboard.type(settings, "users", "remove", ADA).status == 0, "nobody is left behind"
    assert everybody(settings, keyboard) == []
    assert enters(settings, ADA) == 401


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("create", "ada", "--account", "x"), "email_invalid"),
        (("create", ADA, "--account", " "), "account_name_invalid"),
        (("create", ADA, "--account", "x", "--password-stdin"), "password_weak"),
        (("link", ADA), "person_not_found"),
        (("remove", ADA), "person_not_found"),
    ],
)
def test_what_cannot_be_done_is_one_line_with_its_code(
    settings: Settings, keyboard: Keyboard, words: tuple[str, ...], code: str
) -> None:
    typed = keyboard.type(settings, "users", *words, stdin=b"short")
    assert typed.status == 2
    assert typed.err.startswith(f"mailsift: {code}: ")
    assert len(typed.err.splitlines()) == 1
    assert ADA not in typed.err
