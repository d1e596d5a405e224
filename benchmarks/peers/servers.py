"""Everybody at real mail servers, inside the namespace: TOOLS.

Who has a mailbox, and who has not, is known; every set-up of Postfix, Exim, Sendmail and OpenSMTPD is asked
about one of the former and two of the latter. All come from one address with a good name.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.tools import PEERS
from mailsift.pipeline.verdict import Result
from tests.external.chroot import Chroot, alone
from tests.external.mta import exim, opensmtpd, postfix, sendmail
from tests.external.mta.domains import CLEAN, Site, zone_of
from tests.external.mta.name_server import name_server
from tests.external.mta.validation import Us, World, inquire
from tests.support.required_programs import MAIL_SERVERS

PORT = 25
TABLES = {
    "postfix": postfix.SITES,
    "exim": exim.SITES,
    "sendmail": sendmail.SITES,
    "opensmtpd": opensmtpd.SITES,
}
UNDECIDED = frozenset({"risky"})
INVALID = frozenset({"invalid"})
TRUTH = {"ann": frozenset({"valid"}), "ghost": INVALID, "wraith": INVALID}
SPECIAL = {
    **dict.fromkeys(("catch-all", "later", "defer", "defer-helo"), dict.fromkeys(TRUTH, UNDECIDED)),
    # Its only mail server does not serve this domain: nobody is there, whether or not it says so.
    "elsewhere": dict.fromkeys(TRUTH, INVALID | UNDECIDED),
    "system": {"nobody": frozenset({"valid"}), "ghost": INVALID, "wraith": INVALID},
}
"""What may be said where it is not the truth about everybody: who decides at a catch-all, say, is wrong."""
STATUS = {
    Result.DELIVERABLE: "valid",
    Result.MAILBOX_NOT_FOUND: "invalid",
    Result.MAILBOX_DISABLED: "invalid",
}


def truth_at(habit: str, site: Site) -> dict[str, frozenset[str]]:
    """Return what is right to say of three addresses of a set-up."""
    return {f"{local}@{site.domain}": right for local, right in SPECIAL.get(habit, TRUTH).items()}


async def ask_mailsift(world: World, addresses: Sequence[str]) -> dict[str, str]:
    """Run them through the pipeline; whoever is told to come later comes once more."""
    found = await inquire(world, addresses, Us(tries=2))
    return {address: STATUS.get(result, "risky") for address, result in found.results.items()}


def mark(status: str, right: frozenset[str]) -> str:
    """Return whether that is right, wrong, or unknown where it could be known."""
    if status in right:
        return "right"
    return "unknown" if status == "risky" else "wrong"


@contextmanager
def mail_servers() -> Iterator[World]:
    """Start the servers, their DNS and everybody's resolver, and leave by an address with a good name."""
    route = ["ip", "route", "replace", "local", "127.0.0.0/8", "dev", "lo", "table", "local", "src", CLEAN]
    subprocess.run(route, check=True)
    zone = zone_of(site for sites in TABLES.values() for site in sites.values())
    with (
        alone(MAIL_SERVERS),
        Chroot(MAIL_SERVERS, PORT) as chroot,
        name_server(zone) as dns,
        name_server(zone, address="127.0.0.1"),
    ):
        postfix.start_postfix(chroot)
        exim.start_exim(chroot)
        opensmtpd.start_opensmtpd(chroot)
        sendmail.start_sendmail(chroot)
        yield World(PORT, dns)


def report(findings: Mapping[str, Mapping[str, str]]) -> None:
    """Print right/wrong/unknown for each set-up and verifier, then their sums."""
    print(f"{'right / wrong / unknown':28}" + "".join(f"{name[:26]:>28}" for name in findings))
    sums = {name: Counter[str]() for name in findings}
    for server, sites in TABLES.items():
        for habit, site in sites.items():
            truths = truth_at(habit, site)
            cells = ""
            for name, statuses in findings.items():
                marks = Counter(mark(statuses[address], right) for address, right in truths.items())
                sums[name] += marks
                cells += f"{_cell(marks):>28}"
            print(f"{f'{server} {habit}':28}{cells}")
    print(f"{'together':28}" + "".join(f"{_cell(marks):>28}" for marks in sums.values()))


def _cell(marks: Counter[str]) -> str:
    return f"{marks['right']} / {marks['wrong']} / {marks['unknown']}"


def main() -> None:
    """Let everybody check the same addresses, one after the other."""
    tools = Path(sys.argv[1])
    with mail_servers() as world:
        addresses = [
            address
            for sites in TABLES.values()
            for habit, site in sites.items()
            for address in truth_at(habit, site)
        ]
        findings: dict[str, Mapping[str, str]] = {"mailsift": asyncio.run(ask_mailsift(world, addresses))}
        findings |= {peer.name: peer.ask(tools, addresses)[1] for peer in PEERS}
    report(findings)


if __name__ == "__main__":
    main()
