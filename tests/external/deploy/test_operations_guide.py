"""docs/operations.md and docs/runbook.md: what they name exists."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module

import typer

from mailsift.cli import COMMANDS
from mailsift.settings import Settings
from tests.support.deploy_files import DEPLOY

ROOT = DEPLOY.parent
GUIDE = (ROOT / "docs/operations.md").read_text()
PROSE = re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL)
RUNBOOK = (ROOT / "docs/runbook.md").read_text()


def anchors(text: str) -> set[str]:
    """Return what a heading may be linked by."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", GUIDE):
        if target.startswith(("https://", "http://")):
            continue  # somebody else's page; who wrote it down looked there
        path, _, anchor = target.partition("#")
        text = (ROOT / "docs" / path).read_text() if path else GUIDE
        assert not anchor or anchor in anchors(text), target


def test_every_setting_and_file_exists() -> None:
    known = {name for name, _, _ in Settings.describe()}
    named = re.findall(r"\bMAILSIFT_[A-Z_]+\b", GUIDE + RUNBOOK)
    assert {name for name in named if name not in known} == set()
    files = {path.rstrip("/*") for path in re.findall(r"`((?:deploy|pipeline)/[\w./*-]+)`", PROSE + RUNBOOK)}
    assert len(files) > 8
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def test_every_command_exists() -> None:
    named = {
        tuple(found.split()) for found in re.findall(r"`mailsift ([a-z]+(?: [a-z-]+)?)", GUIDE + RUNBOOK)
    }
    assert len(named) > 8
    for first, *rest in sorted(named):
        assert first in COMMANDS, first
        module, _, name = COMMANDS[first].target.partition(":")
        group = getattr(import_module(module), name)
        if rest and isinstance(group, typer.Typer):
            known = {one.name or one.callback.__name__ for one in group.registered_commands if one.callback}
            assert rest[0] in known, (first, rest)


def test_commands_are_run_as_the_units_are() -> None:
    """As root `doctor` left folders of the store that no unit could write to: none of them started."""
    function = re.search(r"^mailsift\(\) \{.*?^\}", GUIDE, re.MULTILINE | re.DOTALL)
    assert function is not None
    script = f"systemd-run() {{ printf '%s\\n' \"$@\"; }}\n{function[0]}\nmailsift doctor"
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    given = done.stdout.splitlines()
    unit = (DEPLOY / "systemd/mailsift-migrate.service").read_text()
    assert f"--uid={re.search(r'^User=(.*)$', unit, re.MULTILINE)[1]}" in given  # type: ignore[index]
    same = re.findall(
        r"^((?:LoadCredential|EnvironmentFile|StateDirectory|StateDirectoryMode)=.*)$", unit, re.MULTILINE
    )
    assert {f"--property={line}" for line in same} == {one for one in given if one.startswith("--property=")}
    assert given[-2:] == ["/opt/mailsift/bin/mailsift", "doctor"]
