"""Cookies: how they are set, where browsers keep them, and what of them is believed."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mailsift.api.pages import cookies


def asked(host: str, scheme: str = "http", **values: str) -> Request:
    header = "; ".join(f"{name}={value}" for name, value in values.items())
    return Request(
        {
            "type": "http",
            "method": "GET",
            "scheme": scheme,
            "path": "/",
            "query_string": b"",
            "server": ("127.0.0.1", 80),
            "headers": [(b"host", host.encode()), (b"cookie", header.encode("latin-1"))],
        }
    )


def test_every_cookie_is_host_only_secure_and_hidden_from_scripts() -> None:
    for name in (cookies.SESSION, cookies.FORM, cookies.FLASH):
        assert name.startswith("__Host-")
        response = Response()
        cookies.put(response, name, "v")
        cookies.drop(response, name)
        for line in response.headers.getlist("set-cookie"):
            attributes = {part.strip().lower() for part in line.split(";")}
            assert {"secure", "httponly", "path=/", "samesite=lax"} <= attributes
            assert not any(part.startswith("domain") for part in attributes)


@pytest.mark.parametrize(
    ("host", "scheme", "kept"),
    [
        ("127.0.0.1:8025", "http", True),
        ("localhost:8025", "http", True),
        ("[::1]:8025", "http", True),
        ("mailsift.localhost", "http", True),
        ("192.168.1.7:8025", "http", False),
        ("mailsift.example.com", "http", False),
        ("localhost.example.com", "http", False),
        ("mailsift.example.com", "https", True),
    ],
)
def test_browsers_keep_them_over_https_and_on_loopback(host: str, scheme: str, *, kept: bool) -> None:
    assert cookies.keeps_cookies(asked(host, scheme)) is kept


def test_a_message_survives_its_cookie_and_rubbish_is_none() -> None:
    cookie = cookies.write_flash('Gone: "ä" <b> ; , =', "bad")
    assert cookie.isascii()
    assert not set(cookie) & set('"; ,=<')
    assert cookies.read_flash(cookie) == ("bad", 'Gone: "ä" <b> ; , =')
    for rubbish in ("", "x", "e30", "W10", "bnVsbA", "\x00", "WzFd"):
        assert cookies.read_flash(rubbish) is None


def test_a_token_of_one_session_is_none_of_another_and_tells_nothing_of_it() -> None:
    one, other = cookies.csrf_token("a"), cookies.csrf_token("b")
    assert one != other
    assert len(one) == 32
    assert one == cookies.csrf_token("a")


def test_a_token_is_of_one_account_and_one_session() -> None:
    one, other, elsewhere = (cookies.csrf_token(*of) for of in (("a", 1), ("a", 2), ("b", 1)))
    assert len({one, other, elsewhere}) == 3
    assert cookies.is_of_session(one, other)
    assert not cookies.is_of_session(one, elsewhere)
    assert not cookies.is_of_session("", one)


def test_a_value_nobody_of_ours_has_written_is_not_read() -> None:
    assert cookies.read(asked("127.0.0.1", x="y" * 5_000), "x") == ""
    assert cookies.read(asked("127.0.0.1", x="\xe4"), "x") == ""
    assert cookies.read(asked("127.0.0.1", x="ok"), "x") == "ok"


def test_a_token_is_written_another_way_every_time() -> None:
    token = cookies.csrf_token("a session")
    written = {cookies.mask(token) for _ in range(20)}
    assert len(written) == 20
    assert {cookies.unmask(one) for one in written} == {token}
    assert all(token not in one for one in written)


@pytest.mark.parametrize("given", ["", "a", "abc", "ä\ud800", "zz", "0a0b0c"])
def test_what_is_no_masked_token_is_none(given: str) -> None:
    assert cookies.unmask(given) == ""
