"""Which role may what."""

from __future__ import annotations

import pytest

from mailsift.accounts.people import Role


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.VIEWER, {Role.VIEWER}),
        (Role.MEMBER, {Role.VIEWER, Role.MEMBER}),
        (Role.OWNER, set(Role)),
    ],
)
def test_each_role_may_what_those_before_it_may(role: Role, may: set[Role]) -> None:
    assert {needed for needed in Role if role.may(needed)} == may
