"""Another policy over the results of a finished job: seconds, and what the same would cost to ask again.

python -m benchmarks.replay --rows 1000000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.download import results_file
from mailsift.jobs.results.breakdown import replay
from mailsift.pipeline.tiers import Tier, TierPolicy

_LOOKS = 3


def main() -> None:
    """Print the seconds of some looks at the same results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        results = results_file(Path(folder), rows)
        print(f"{rows:,} rows, {results.stat().st_size / 1e6:.0f} MB of results")
        other = TierPolicy(unknown=Tier.REMOVE, free=Tier.REVIEW, minimum_score=61)
        for _ in range(_LOOKS):
            started, cpu = time.perf_counter(), time.process_time()
            found = replay(results, TierPolicy(), other)
            seconds, used = time.perf_counter() - started, time.process_time() - cpu
            print(f"{seconds:.2f} s ({used:.2f} s of CPU): {dict(found.before)} -> {dict(found.after)}")


if __name__ == "__main__":
    main()
