"""Where signing in leads."""

from __future__ import annotations

import pytest

from mailsift.api.pages.page import inside


@pytest.mark.parametrize("goal", ["/", "/jobs", "/jobs/1?status=risky&page=2", "/webhooks/x#y"])
def test_a_path_of_ours_is_gone_to(goal: str) -> None:
    assert inside(goal) == goal


@pytest.mark.parametrize(
    "goal",
    [
        "",
        "jobs",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/\n/evil.example",
        "/ä",
    ],
)
def test_everything_else_becomes_the_first_page(goal: str) -> None:
    assert inside(goal) == "/"
