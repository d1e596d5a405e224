"""Domains that do not want their mail servers to be asked about mailboxes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.syntax.address import read_domain


class OptOuts:
    """What one process knows of domains that opted out; a domain stands for its subdomains, too.

    Args:
        always: domains that stay, whatever is learned; ASCII, lower case.
    """

    def __init__(self, always: Iterable[str] = ()) -> None:
        self._always = frozenset(always)
        self._domains = self._always

    def learn(self, domains: Iterable[str]) -> None:
        """Know these beside those that stay, and no others from now on."""
        self._domains = self._always.union(domains)

    def covers(self, domain: str) -> bool:
        """Tell whether the domain, or one it is below, opted out."""
        if not self._domains:
            return False
        labels = domain.split(".")
        return any(".".join(labels[start:]) in self._domains for start in range(len(labels)))


def read_opt_outs(file: Path) -> list[str]:
    """Return the domains of a file: one a line, what follows a # is for people.

    Raises:
        MailsiftError: `bad_opt_outs`.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MailsiftError("bad_opt_outs", f"Opt-outs file: it can’t be read: {error}.") from None
    names = [name for line in lines if (name := line.partition("#")[0].strip())]
    parsed = [*map(read_domain, names)]
    if not all(parsed):
        line = names[parsed.index("")]
        raise MailsiftError("bad_opt_outs", f"Opt-outs file: the line {line!r} isn’t a domain name.")
    return parsed


NOBODY: Final = OptOuts()
