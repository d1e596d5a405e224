"""The addresses behind a receiver's name, asked of the resolver as an absolute name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from pipeline.dns.client import DnsClient
from pipeline.dns.rules import DnsAnswer, Outcome, Question
from pipeline.errors import MailsiftError

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name, () when it has none; raises `resolver_failed` when nobody knows."""


class Names:
    """Looks names up; created inside a running loop.

    No search domain and no hosts file of this machine has a say, and the client's deadline bounds every
    question.

    Args:
        servers: "host:port", tried in order; () = those of the system.
    """

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._client = DnsClient(servers=servers, timeout=1.0, tries=4, concurrency=50)

    async def resolve(self, name: str) -> Sequence[str]:
        """Return the addresses of a name, IPv4 first; () when it has none.

        Raises:
            MailsiftError: `resolver_failed`: no address was heard of, but for a failure of the resolver there
                might be one.
        """
        answers = await asyncio.gather(self._ask(name, Question.A), self._ask(name, Question.AAAA))
        found = [address for answer in answers for address in answer.addresses]
        if not found and any(answer.outcome is Outcome.FAILED for answer in answers):
            raise MailsiftError("resolver_failed", "The resolver does not answer.", retryable=True)
        return found

    async def aclose(self) -> None:
        """Release the sockets."""
        await self._client.aclose()

    async def _ask(self, name: str, question: Question) -> DnsAnswer:
        answer: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()

        def arrived(found: DnsAnswer) -> None:
            if not answer.done():  # nobody waits any more
                answer.set_result(found)

        self._client.ask(name, question, arrived)
        return await answer
