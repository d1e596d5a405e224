"""The Dockerfile keeps the rules of the trade; no Docker engine is needed to see it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from tests.support.deploy_files import DEPLOY, Instruction, instructions, stages

ROOT = DEPLOY.parent
Rule = Callable[[Sequence[Instruction]], bool]


def _pinned(lines: Sequence[Instruction]) -> bool:
    """A tag that says which release, of the image every stage starts from."""
    bases = [line.words.split()[0] for line in lines if line.name == "FROM"]
    return all(
        re.fullmatch(r"[a-z0-9./-]+:\w[\w.-]*\d[\w.-]*|[a-z0-9./-]+:bookworm-slim", base) for base in bases
    )


def _says(lines: Sequence[Instruction], name: str, pattern: str) -> bool:
    return any(line.name == name and re.search(pattern, line.words) for line in lines)


def _last(lines: Sequence[Instruction], name: str) -> str:
    return next((line.words for line in reversed(lines) if line.name == name), "")


def _tidy_apt(lines: Sequence[Instruction]) -> bool:
    runs = [line.words for line in lines if line.name == "RUN" and "apt-get install" in line.words]
    return all(
        "--no-install-recommends" in run and "rm -rf /var/lib/apt/lists" in run and "apt-get update" in run
        for run in runs
    )


def _exec_form(lines: Sequence[Instruction]) -> bool:
    """A shell would swallow SIGTERM."""
    given = [line.words for line in lines if line.name in {"CMD", "ENTRYPOINT"}]
    checks = [line.words.partition("CMD ")[2] for line in lines if line.name == "HEALTHCHECK"]
    return all(words.startswith("[") and json.loads(words) for words in given + checks)


FINAL: dict[str, Rule] = {
    "is not root": lambda lines: bool(re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", _last(lines, "USER"))),
    "starts in exec form": _exec_form,
    "has a health check": lambda lines: "CMD" in _last(lines, "HEALTHCHECK"),
    "stops on SIGTERM": lambda lines: _last(lines, "STOPSIGNAL") == "SIGTERM",
    "has an entry point": lambda lines: bool(_last(lines, "ENTRYPOINT")),
}
"""What a stage that becomes an image must say."""
EVERY: dict[str, Rule] = {
    "has a pinned base": _pinned,
    "adds nothing from a URL": lambda lines: not any(line.name == "ADD" for line in lines),
    "cleans up after apt": _tidy_apt,
    "does not pipe the web into a shell": lambda lines: not _says(lines, "RUN", r"(curl|wget)[^&;]*\|"),
    "does not change to root by sudo": lambda lines: not _says(lines, "RUN", r"\bsudo\b"),
    "copies what it names": lambda lines: not _says(lines, "COPY", r"^\.\s"),
    "keeps no secret": lambda lines: (
        not any(
            re.search(r"(?i)password|secret_key|token|pepper", line.words)
            for line in lines
            if line.name in {"ENV", "ARG"}
        )
    ),
}
"""What every stage must keep to."""


def faults(text: str) -> set[str]:
    found = stages(text)
    broken = {name for lines in found.values() for name, rule in EVERY.items() if not rule(lines)}
    images = [lines for name, lines in found.items() if name != "build"]
    return broken | {name for lines in images for name, rule in FINAL.items() if not rule(lines)}


def test_it_keeps_every_rule() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert set(stages(text)) == {"build", "resolver", "mailsift"}
    assert faults(text) == set()


def test_it_installs_what_the_lock_says_and_checks_every_hash() -> None:
    build = [line.words for line in stages((DEPLOY / "Dockerfile").read_text())["build"]]
    fetched = next(n for n, words in enumerate(build) if words.startswith("pip download"))
    closed = next(n for n, words in enumerate(build) if "PIP_NO_INDEX=1" in words)
    installed = next(n for n, words in enumerate(build) if "pip install" in words)
    assert "--require-hashes --requirement requirements.lock" in build[fetched]
    assert fetched < closed < installed
    assert '".[mcp,otel]"' in build[installed]


def test_the_build_is_given_what_it_copies_and_nothing_else() -> None:
    allowed = {
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for line in instructions((DEPLOY / "Dockerfile").read_text())
        if line.name == "COPY" and "--from=" not in line.words
        for source in line.words.split()[:-1]
    }
    assert copied == allowed
    assert [name for name in sorted(copied) if not (ROOT / name).exists()] == []


def test_every_room_of_the_wheel_is_copied() -> None:
    wheel = re.search(r"packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text())
    assert wheel is not None
    folders = set(re.findall(r'"(\w+)"', wheel[1]))
    text = (DEPLOY / "Dockerfile").read_text()
    assert {room for room in folders if f"COPY {room} ./{room}" not in text} == set()
