"""Mailsift beside the fastest verifiers one can install, in one network namespace with the same DNS and SMTP.

    python -m benchmarks.peers [--rows N] [--sample N | --all] [--mix calm|hostile] [--tools FOLDER]
    python -m benchmarks.peers --gateway N     # the others at a gateway that blocks harvesters
    python -m benchmarks.peers --servers       # all at real mail servers, of .ci/install-mail-servers

The others ask the system's resolver and port 25, so everything runs in a namespace whose resolver is the
sandbox. That takes root, iproute2 and npm; the others are installed into FOLDER, outside the checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from benchmarks.peers.listing import write_rows
from benchmarks.peers.tools import ToolsError, install
from mailsift.sandbox.world import WorldMix
from tests.support.machines import MachinesError, one_namespace

_RESOLVERS = Path("/etc/netns")  # `ip netns exec` puts NAME/resolv.conf over /etc/resolv.conf


@contextmanager
def namespace() -> Iterator[list[str]]:
    """Make a network with nothing but loopback, whose resolver is whoever listens on 127.0.0.1:53 in it.

    Yields:
        What to put in front of a command so that it runs inside.

    Raises:
        MachinesError: not root, no iproute2, or the kernel refuses.
    """
    name = f"ms-peers-{os.getpid()}"
    settings = _RESOLVERS / name
    with one_namespace(name) as within:
        try:
            settings.mkdir(parents=True)
            (settings / "resolv.conf").write_text("nameserver 127.0.0.1\n")
            yield within
        finally:
            shutil.rmtree(settings, ignore_errors=True)


def main() -> int:
    """Install the others, make the namespace and compare in there; 2 when that cannot be done here."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    options.add_argument(
        "--rows",
        type=int,
        default=100_000,
        help="addresses in the list; of a short one the end is a wait for DNS that has failed once",
    )
    options.add_argument("--sample", type=int, default=5_000, help="how many of them the others get")
    options.add_argument("--all", action="store_true", help="the others get all of them")
    options.add_argument("--latency-ms", type=int, default=20, help="milliseconds to a reply")
    options.add_argument(
        "--mix",
        type=WorldMix,
        choices=list(WorldMix),
        default=WorldMix.CALM,
        help="what mail servers are like; hostile: every behaviour of the sandbox",
    )
    options.add_argument(
        "--gateway", type=int, default=0, help="addresses at a gateway, instead; see benchmarks.good_name"
    )
    options.add_argument("--servers", action="store_true", help="real mail servers, instead of the sandbox")
    options.add_argument(
        "--tools",
        type=Path,
        default=platformdirs.user_cache_path("mailsift") / "peers",
        help="where the others are installed (default: %(default)s)",
    )
    chosen = options.parse_args()
    sample = chosen.rows if chosen.all else min(chosen.sample, chosen.rows)
    tools = chosen.tools.expanduser().absolute()
    try:
        install(tools)
        with tempfile.TemporaryDirectory(prefix="ms-peers-") as scratch, namespace() as inside:
            if chosen.servers:
                words = ["servers", tools]
            elif chosen.gateway:
                words = ["compare", tools, chosen.gateway]
            else:
                write_rows(Path(scratch), chosen.rows, chosen.mix)
                words = ["compare", scratch, tools, sample, chosen.latency_ms, chosen.mix.value]
            module, *arguments = map(str, words)
            command = [*inside, sys.executable, "-m", f"benchmarks.peers.{module}", *arguments]
            return subprocess.run(command, check=False).returncode
    except (MachinesError, ToolsError) as error:
        print(f"The comparison cannot run here: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
