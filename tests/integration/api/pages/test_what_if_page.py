"""Another policy beside a job's own, on a page: compared, dropped, kept."""

from __future__ import annotations

import re

import pytest

from mailsift.accounts.people import Role
from tests.integration.api.conftest import Api
from tests.integration.api.pages.lists import ended, started, words
from tests.support.sessions import post, signed_in


@pytest.mark.usefixtures("worker")
async def test_a_policy_is_compared_and_kept(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as client:
        job = await started(client)
        await ended(client, job)
        form = await client.get(f"{job}/what-if")
        assert form.status_code == 200
        assert "Side by side" not in form.text
        page = await client.get(f"{job}/what-if", params={"passed": "review", "minimum_score": "0"})
        assert "Send 3 75.0 % 0 0 %" in words(page.text)
        assert "Review 0 0 % 3 75.0 %" in words(page.text)
        assert "3 rows move" in words(page.text)
        written = re.search(r'name="policy" value="([^"]+)"', page.text)
        assert written is not None
        policy = written[1].replace("&#34;", '"')
        for wrong in ({"passed": "burn"}, {"minimum_score": ""}, {"moon": "review"}):
            page = await client.get(f"{job}/what-if", params={"free": "remove", **wrong})
            assert "This policy isn’t valid" in page.text
            assert "invalid literal" not in page.text
            free = page.text.partition('name="free"')[2].partition("</select>")[0]
            assert '<option value="remove" selected>' in free  # what was chosen stays
        for odd in ("[" * 4_000, '{"minimum_score": 1e999}'):
            await post(client, f"{job}/what-if", policy=odd)
            assert "This policy isn’t valid" in (await client.get(job)).text
        kept = await post(client, f"{job}/what-if", policy=policy)
        assert kept.headers["location"] == job
        again = await client.get(f"{job}/what-if", params={"passed": "review"})
        assert "No row would move" in again.text
