"""`mailsift mcp`: tools for an assistant that starts this command and talks to it."""

from __future__ import annotations

from typing import Annotated

import typer
import uvloop

from mailsift.accounts.keys import Caller, Scope
from mailsift.cli.lists import working
from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.container import API_POOL, open_container
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings


def mcp(
    *,
    account: Annotated[
        str, typer.Option("--account", help="The account the jobs belong to.")
    ] = LOCAL_ACCOUNT,
    test: Annotated[bool, typer.Option("--test", help="Test mode: no mail server is asked.")] = False,
) -> None:
    """Serve an assistant over standard input and output (Model Context Protocol).

    Starts what is not running, as `mailsift run` does.
    """
    with working(Settings.from_env()) as (settings, _):
        uvloop.run(_serve(settings, account, test=test))


async def _serve(settings: Settings, account: str, *, test: bool) -> None:
    try:
        from mailsift.api.mcp.server import serve_stdio  # noqa: PLC0415 - an extra
        from mailsift.api.mcp.tools import ToolCall  # noqa: PLC0415 - with it
    except ModuleNotFoundError:
        raise MailsiftError("mcp_missing", "MCP isn’t installed: install mailsift[mcp].") from None
    async with open_container(settings, pool_size=API_POOL) as container:
        jobs = container.jobs
        owner = await (jobs.account(account) if account == LOCAL_ACCOUNT else jobs.find_account(account))
        if test:
            owner = await container.keys.test_account(owner)
        # there is no key: the account has its budget
        caller = Caller(owner, owner, frozenset(scope.value for scope in Scope), None, test=test)
        await serve_stdio(ToolCall(await container.api_parts(), caller))
