"""Sendmail as Debian ships it: virtual users, an access database, block lists and rates."""

from __future__ import annotations

from mailsift.pipeline.verdict import Result
from tests.external.mta.domains import CROWD, SHADY
from tests.external.mta.sendmail import HURRIED, SITES
from tests.external.mta.validation import Us, World, inquire

TRUTH = {"ann": Result.DELIVERABLE, "ghost": Result.MAILBOX_NOT_FOUND, "wraith": Result.MAILBOX_NOT_FOUND}
GHOSTS = {f"ghost{number}": Result.MAILBOX_NOT_FOUND for number in range(8)}
CROWDED = dict.fromkeys(CROWD, Result.DELIVERABLE) | GHOSTS
BLOCKED = dict.fromkeys(TRUTH, Result.PROBE_BLOCKED)


async def test_a_table_of_virtual_users_tells_who_is_there(sendmail_world: World) -> None:
    found = await inquire(sendmail_world, SITES["plain"].boxes(*CROWDED))
    assert found.by_local() == CROWDED, found


async def test_a_catch_all_is_found_by_a_name_that_cannot_exist(sendmail_world: World) -> None:
    found = await inquire(sendmail_world, SITES["catch-all"].boxes(*TRUTH))
    assert set(found.results.values()) == {Result.CATCH_ALL}, found


async def test_a_server_that_will_not_relay_says_nothing_about_the_mailbox(sendmail_world: World) -> None:
    found = await inquire(sendmail_world, SITES["elsewhere"].boxes(*TRUTH))
    assert found.by_local() == BLOCKED, found


async def test_an_access_database_tells_the_full_from_the_closed(sendmail_world: World) -> None:
    """Ann and Bob share a mailbox: the reply to one names the other, so that they are asked one by one."""
    found = await inquire(sendmail_world, SITES["access"].boxes("ann", "bob", "full", "closed", "ghost"))
    assert found.by_local() == {
        "ann": Result.DELIVERABLE,
        "bob": Result.DELIVERABLE,
        "full": Result.MAILBOX_FULL,
        "closed": Result.MAILBOX_DISABLED,  # REJECT: "Mailbox disabled for this recipient"
        "ghost": Result.MAILBOX_NOT_FOUND,
    }, found


async def test_what_is_wrong_with_us_is_never_held_against_a_mailbox(sendmail_world: World) -> None:
    blocked = await inquire(sendmail_world, SITES["plain"].boxes(*TRUTH), Us(source=SHADY))
    assert blocked.by_local() == BLOCKED, blocked


async def test_a_rate_of_connections_makes_nobody_invalid(sendmail_world: World) -> None:
    boxes = SITES["plain"].boxes(*CROWDED)
    found = await inquire(sendmail_world, boxes, Us(source=HURRIED, recipients=4, sessions=1, tries=2))
    right = {box for box, result in found.by_local().items() if result is CROWDED[box]}
    unsure = {box for box, result in found.by_local().items() if result is Result.DEFERRED}
    assert right | unsure == set(CROWDED), found
    assert unsure  # two connections were not enough for all
