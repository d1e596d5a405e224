"""Free-mail domains whose provider everybody knows."""

from __future__ import annotations

import pytest

from mailsift.pipeline.providers import provider_by_name


@pytest.mark.parametrize(
    ("domain", "provider"),
    [
        ("gmail.com", "google"),
        ("hotmail.co.uk", "outlook"),
        ("yahoo.de", "yahoo"),
        ("yahoo.co.jp", "yahoo_japan"),
        ("example.com", ""),
    ],
)
def test_free_mail_is_known_by_name_and_nothing_else_is(domain: str, provider: str) -> None:
    assert provider_by_name(domain) == provider
