"""A form whose session has ended leads to signing in and back to its page, never to somebody else's."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import Any, ClassVar

import pytest

from mailsift.accounts.people import Role
from tests.integration.api.conftest import Api
from tests.support.sessions import browser, signed_in

BACK = (
    ("{url}/keys/new?x=1", "/keys/new%3Fx%3D1"),
    ("{url}/lists/7b1d3c2e-8d53-4c5f-9f59-6d8f5f1f0a11/start", "/lists/7b1d3c2e-8d53-4c5f-9f59-6d8f5f1f0a11"),
    ("{url}/no/such/page", "/"),
    ("{url}//evil.example/", "/"),
    ("https://evil.example/keys/new", "/"),
    ("http://[", "/"),
    ("", "/"),
)


async def test_a_form_without_a_session_leads_back_to_its_page(api: Api) -> None:
    async with browser(api) as client:
        for referer, goal in BACK:
            headers = {"Referer": referer.format(url=api.url)}
            answer = await client.post("/suppressions", data={"emails": "typed"}, headers=headers)
            assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={goal}&ended=1")


class _Noted(SpooledTemporaryFile[bytes]):
    """What a form sets aside of a file."""

    made: ClassVar[list[_Noted]] = []

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made.append(self)


async def test_a_form_that_is_refused_leaves_no_file_open(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", _Noted)
    async with signed_in(api, Role.MEMBER) as client:
        files = {"file": ("list.csv", b"a@b.example\n" * 10)}
        answer = await client.post("/suppressions/import", data={"csrf": "0" * 64}, files=files)
    assert answer.status_code == 403
    assert [file.closed for file in _Noted.made] == [True]
