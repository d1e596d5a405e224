"""What Lighthouse says of five pages: 5,000 jobs, 500 throttles, one job with 1,000,000 rows.

Installs nothing: `npm install --prefix FOLDER lighthouse@12`, and Chromium, are yours to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.pages import ServedInstallation, finished_job, populated
from benchmarks.served import installed, served, settings_of
from mailsift.api.pages.cookies import SESSION
from tests.support.sessions import browser, cookie, sign_in

CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
PAGES = {
    "Validate": "/",
    "Jobs": "/jobs",
    "a job": "/jobs/{job}",
    "its results": "/jobs/{job}/results",
    "Operations": "/ops",
}
LEAST = 95
_BROWSER = "--headless --no-sandbox --disable-gpu --disable-background-networking"


def judged(lighthouse: str, url: str, session: str) -> dict[str, Any]:
    """Return Lighthouse's report of a page, as its simulated telephone sees it.

    Raises:
        CalledProcessError: it could not look at the page.
        RuntimeError: it was shown another one, as strangers are.
    """
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""
    headers = json.dumps({"Cookie": f"{SESSION}={session}"})
    done = subprocess.run(
        [
            *(lighthouse, url, "--quiet", "--output=json", f"--chrome-flags={_BROWSER}"),
            *(f"--extra-headers={headers}", f"--only-categories={','.join(CATEGORIES)}"),
        ],
        env={**os.environ, "CHROME_PATH": chromium},  # noqa: TID251 - handed on to a child
        stdout=subprocess.PIPE,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    if report["finalDisplayedUrl"] != url:
        raise RuntimeError(f"{url} led to {report['finalDisplayedUrl']}")
    return report


def scores(report: dict[str, Any]) -> list[int]:
    """Return the points of each category, 0 where there are none."""
    return [round(100 * (report["categories"][name]["score"] or 0)) for name in CATEGORIES]


def lost(report: dict[str, Any]) -> list[str]:
    """Return the checks of categories below the goal that cost points."""
    audits = report["audits"]
    low = [report["categories"][name] for name in CATEGORIES]
    named = {
        one["id"]
        for category in low
        if (category["score"] or 0) * 100 < LEAST
        for one in category["auditRefs"]
        if one["weight"]
    }
    costly = sorted(name for name in named if (score := audits[name]["score"]) is not None and score < 1)
    return [f"{name}: {audits[name].get('displayValue') or audits[name]['title']}" for name in costly]


async def session_of(installation: ServedInstallation) -> str:
    """Fill the installation; returns the session of an owner who is an operator, too."""
    email = await populated(installation)
    async with browser(installation) as client:
        await sign_in(client, email)
        return cookie(client, SESSION)


def main() -> None:
    """Print the points of every page; fail when one has fewer than it should."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument(
        "--lighthouse", default="lighthouse", help="the program, FOLDER/node_modules/.bin/lighthouse"
    )
    chosen = options.parse_args()
    if not shutil.which(chosen.lighthouse):
        sys.exit("no Lighthouse: npm install --prefix FOLDER lighthouse@12, then --lighthouse")
    good = True
    with installed() as environment, tempfile.TemporaryDirectory(prefix="ms-bench-") as folder:
        settings = settings_of(environment)
        job = asyncio.run(finished_job(settings, Path(folder), chosen.rows))
        with served("mailsift", "api", environment=environment) as server:
            session = asyncio.run(session_of(ServedInstallation(server.url, settings)))
            print(f"{'':12} {'  '.join(CATEGORIES)}")
            for name, path in PAGES.items():
                report = judged(chosen.lighthouse, server.url + path.format(job=job), session)
                points = scores(report)
                cells = (f"{one:>{len(head)}}" for one, head in zip(points, CATEGORIES, strict=True))
                print(f"{name:12} {'  '.join(cells)}", flush=True)
                for line in lost(report):
                    print(f"{'':12} {line}", flush=True)
                good = good and min(points) >= LEAST
    print(f"goal: {LEAST} in each")
    sys.exit(0 if good else "a page has fewer points than it should")


if __name__ == "__main__":
    main()
