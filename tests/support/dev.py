"""`make dev`: API, pages and a worker on a sandbox of their own, started anew when a file changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override
from watchfiles import Change, DefaultFilter, run_process

from mailsift.runtime.embedded import EmbeddedServers
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.world import WorldMix

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "dev"
WATCHED = ("accounts", "api", "events", "jobs", "mailsift", "pipeline", "sandbox", "storage")
# The sandbox is nobody's mail server: polite, but for a machine of its own.
OVERRIDES = "[limits]\nrate = 2000\nburst = 200\n"


class Sources(DefaultFilter):
    """What a process reads once: code, templates, styles, scripts."""

    @override
    def __call__(self, change: Change, path: str) -> bool:
        """Say whether a change of this file starts everything anew."""
        return super().__call__(change, path) and path.endswith((".py", ".html", ".css", ".js", ".lua"))


def serve(environment: Mapping[str, str]) -> None:
    """Bring the database up to date, then serve until somebody interrupts; runs in a process of its own."""
    os.environ.update(environment)  # noqa: TID251 - the command reads its settings from there
    from mailsift.cli import main  # noqa: PLC0415 - the code as it is now
    from mailsift.storage.schema import migrate  # noqa: PLC0415

    migrate(environment["MAILSIFT_DATABASE_URL"])
    sys.argv = ["mailsift", "serve"]
    main()


def run() -> None:
    """Start the servers and the sandbox once, and everything else whenever something changes."""
    HOME.mkdir(parents=True, exist_ok=True)
    overrides = HOME / "overrides.toml"
    overrides.write_text(OVERRIDES)
    with EmbeddedServers(HOME) as servers, SandboxProcess(mix=WorldMix.HOSTILE) as sandbox:
        environment = {
            **sandbox.env,
            "MAILSIFT_HOME": str(HOME),
            "MAILSIFT_OVERRIDES": str(overrides),
            "MAILSIFT_HELO_NAME": "mailsift.sandbox.test",
            "MAILSIFT_DATABASE_URL": servers.database_url,
            "MAILSIFT_REDIS_URL": servers.redis_url,
        }
        print("A list to drop on the page: mailsift sandbox list --mix hostile --output list.csv")  # noqa: T201
        run_process(
            *(path for name in WATCHED if (path := ROOT / name).is_dir()),
            target=serve,
            args=(environment,),
            watch_filter=Sources(),
            callback=lambda changes: print(f"{len(changes)} changed: starting anew"),  # noqa: T201
            sigint_timeout=20,
        )


if __name__ == "__main__":
    run()
