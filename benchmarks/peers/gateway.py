"""The others at a gateway that blocks harvesters, inside the namespace: TOOLS ROWS."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from benchmarks.peers.compare import Internet, ask_peer
from benchmarks.peers.listing import gateway_addresses
from benchmarks.peers.tools import PEERS
from mailsift.sandbox.world import WorldMix


def main() -> None:
    """Let each of the others check the list at a gateway that has heard of nobody yet."""
    tools, addresses = Path(sys.argv[1]), gateway_addresses(int(sys.argv[2]))
    print(f"{len(addresses)} addresses at a gateway, 30 % of them unknown; it takes 30 recipients a minute")
    for peer in PEERS:
        with Internet(domains=20, latency_ms=20, mix=WorldMix.CALM, minute_seconds=60) as internet:
            found = ask_peer(internet, peer, tools, addresses)
        said = Counter(found.statuses.values())
        print(
            f"  {peer.name:<28}{found.bans:>3} blocks{found.seconds:>8.1f} s{said['valid']:>6} valid"
            f"{said['invalid']:>6} invalid{said['risky']:>6} without an answer",
            flush=True,
        )


if __name__ == "__main__":
    main()
