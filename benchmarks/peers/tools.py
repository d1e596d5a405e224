"""The verifiers to compare with: which versions, how they are installed and how they are run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_INSTALLED = "installed.txt"
_KINDNESS = {
    "UV_THREADPOOL_SIZE": "50",  # Node looks host names up in threads, and has four unless told
    "PY3VE_IGNORE_UPDATER": "1",  # no download of a list while the clock runs
}


class ToolsError(Exception):
    """They cannot be installed; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them.

    Attributes:
        name: the package; version: the one that is compared.
        python: it is a Python package, else one for Node.
    """

    name: str
    version: str
    python: bool = False

    def command(self, tools: Path) -> list[str]:
        """Return the command that reads addresses from standard input and prints one JSON object."""
        if self.python:
            return [str(tools / "python" / "bin" / "python"), str(_HERE / "drive.py")]
        return ["node", str(_HERE / "drive.mjs"), str(tools / "node"), self.name]

    def ask(self, tools: Path, addresses: Sequence[str]) -> tuple[float, dict[str, str]]:
        """Run addresses through it; returns the seconds it took, and statuses by address."""
        done = subprocess.run(
            self.command(tools),
            input="\n".join(addresses),
            env={**os.environ, **_KINDNESS},  # noqa: TID251 - handed on to a child
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        report = json.loads(done.stdout)
        return report["seconds"], report["statuses"]


PEERS = (
    Peer("@devmehq/email-validator-js", "2.10.2"),
    Peer("deep-email-validator", "0.1.27"),
    Peer("py3-validate-email", "1.0.5.post2", python=True),
)


def install(tools: Path) -> None:
    """Install what is not there yet.

    Raises:
        ToolsError: npm is missing or an installation failed.
    """
    wanted = "".join(f"{peer.name} {peer.version}\n" for peer in PEERS)
    done = tools / _INSTALLED
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            raise ToolsError(f"`{program}` is missing; it comes with Node.js.")
    if done.exists() and done.read_text() == wanted:
        return
    print(f"installing what Mailsift is compared with into {tools}", flush=True)
    (tools / "node").mkdir(parents=True, exist_ok=True)
    npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(tools / "node")]
    _run(*npm, *(f"{peer.name}@{peer.version}" for peer in PEERS if not peer.python))
    _run(sys.executable, "-m", "venv", str(tools / "python"))
    pip = [str(tools / "python" / "bin" / "python"), "-m", "pip", "--quiet", "install"]
    _run(*pip, *(f"{peer.name}=={peer.version}" for peer in PEERS if peer.python))
    done.write_text(wanted)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ToolsError(f"`{' '.join(command[:3])} ...` failed: {done.stderr.strip()[-1000:]}")
