"""The broker's address, as the broker library spells it."""

from __future__ import annotations

import pytest

from mailsift.jobs.tasks import broker_url


@pytest.mark.parametrize(
    ("given", "spelt"),
    [
        ("redis://:secret@cache:6379/2", "redis://:secret@cache:6379/2"),
        ("rediss://cache:6379/0", "rediss://cache:6379/0"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock"),
        ("unix:///run/valkey.sock?db=7", "redis+socket:///run/valkey.sock?virtual_host=7"),
        (
            "unix:///run/v.sock?password=a%26b&db=1",
            "redis+socket:///run/v.sock?password=a%26b&virtual_host=1",
        ),
    ],
)
def test_the_same_server_and_database_are_meant(given: str, spelt: str) -> None:
    assert broker_url(given) == spelt
