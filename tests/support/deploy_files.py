"""What deploy/ says, read from its files: the compose services, the image's environment, the manifests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.workers import ROOT

DEPLOY = ROOT / "deploy"
OURS = ("api", "worker", "sweeper", "migrate")
"""The services that run our image."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile, its lines joined."""

    line: int
    name: str
    words: str


def instructions(text: str) -> list[Instruction]:
    """Split a Dockerfile; comments and empty lines are left out."""
    found: list[Instruction] = []
    joined, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not joined and (not line.strip() or line.lstrip().startswith("#")):
            continue
        if line.lstrip().startswith("#"):
            continue
        start = start if joined else number
        joined += line.rstrip("\\") if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        name, _, words = joined.strip().partition(" ")
        found.append(Instruction(start, name.upper(), " ".join(words.split())))
        joined = ""
    return found


def stages(text: str) -> dict[str, list[Instruction]]:
    """Return the instructions of each build stage by the stage's name, FROM first."""
    found: dict[str, list[Instruction]] = {}
    name = "before any FROM"
    for instruction in instructions(text):
        if instruction.name == "FROM":
            name = instruction.words.lower().rpartition(" as ")[2]
        found.setdefault(name, []).append(instruction)
    return found


def image_environment() -> dict[str, str]:
    """Return what the image itself sets."""
    lines = stages((DEPLOY / "Dockerfile").read_text())["mailsift"]
    pairs = [pair for line in lines if line.name == "ENV" for pair in shlex.split(line.words)]
    return dict(pair.split("=", 1) for pair in pairs)


def compose() -> dict[str, Any]:
    """Return compose.yaml with its anchors merged."""
    found: dict[str, Any] = yaml.load((DEPLOY / "compose.yaml").read_text(), yaml.CSafeLoader)
    return found


def service_environment(name: str) -> dict[str, str]:
    """Return everything a service of ours is told but its secrets: image, example file, compose."""
    own = compose()["services"][name]["environment"]
    return {**image_environment(), **example_settings(), **{key: str(value) for key, value in own.items()}}


def example_settings() -> dict[str, str]:
    """Return the variables of mailsift.env.example, also those that are commented out there."""
    lines = (DEPLOY / "mailsift.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))


def manifests() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every document of the Kubernetes folder with its file."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            yield path, document


def texts() -> dict[str, str]:
    """Return the text of every file below deploy/ that is part of the checkout."""
    private = {"secrets", "mailsift.env"}
    paths = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(DEPLOY)): path.read_text()
        for path in paths
        if not private.intersection(path.relative_to(DEPLOY).parts)
    }
