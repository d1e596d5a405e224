"""What is built can be installed beside other people's packages, and nothing of ours goes by their names."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.serving import address
from tests.support.workers import kill_group

ROOT = Path(__file__).parents[2]
API_PAGE = (ROOT / "docs/api.md").read_text()
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
OTHERS = ("api", "events", "jobs")
FOLDERS = {"accounts", "api", "events", "jobs", "pipeline", "sandbox", "storage"}
UNDECLARED = """\
import sys


class Undeclared:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"{{name}} is of nothing that Mailsift depends on", name=name)


sys.meta_path.insert(0, Undeclared())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel, built from the sdist, which is built from what git knows of."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if os.path.lexists(ROOT / name):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(checkout)],
        capture_output=True,
        check=True,
        timeout=120,
    )
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with our wheel, what `[embedded]` brings, and packages named like ours."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    for name in OTHERS:
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text("OWNER = 'somebody else'\n")
    # The dependencies are those of this environment: a path brings packages, but no editable install.
    (packages / "dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    python = home / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    install = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install", "--no-deps"]
    subprocess.run(
        [*install, "--no-index", "--ignore-installed", str(wheel)], check=True, capture_output=True
    )
    ours = next(iter(Distribution.discover(name="mailsift", path=[str(packages)])))
    brought = brought_by(ours, frozenset({"embedded"}))
    names = {
        name for name, owners in packages_distributions().items() if brought.isdisjoint(canonical(owners))
    }
    (packages / "undeclared.py").write_text(UNDECLARED.format(names=sorted(names - {"mailsift", *OTHERS})))
    (packages / "undeclared.pth").write_text("import undeclared")
    return python


def brought_by(package: Distribution, extras: frozenset[str]) -> set[str]:
    """What pip would install for the package with these extras, and for what that needs."""
    found: dict[str, set[str]] = {}
    waiting = [(package, extras)]
    while waiting:
        package, extras = waiting.pop()
        for needed in map(Requirement, package.requires or ()):
            name, known = canonicalize_name(needed.name), found.get(canonicalize_name(needed.name))
            if needed.marker and not any(needed.marker.evaluate({"extra": one}) for one in ("", *extras)):
                continue
            if known is None or not needed.extras <= known:
                found[name] = needed.extras | (known or set())
                waiting.append((distribution(name), frozenset(needed.extras)))
    return set(found)


def canonical(names: list[str]) -> set[str]:
    return {canonicalize_name(name) for name in names}


def run(*command: str | Path) -> str:
    words, environment = [str(word) for word in command], {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_and_sdist_hold_one_package_with_everything_in_it(built: Path) -> None:
    wheel, sdist = next(built.glob("*.whl")), next(built.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"mailsift"}
    assert {name.split("/")[1] for name in names if name.startswith("mailsift/")} >= FOLDERS | {"py.typed"}
    assert [name for name in names if name.endswith((".lua", ".html", ".css"))]
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in names if name.startswith("mailsift/")} <= sources


def test_it_runs_beside_packages_with_the_names_of_its_folders(installed: Path) -> None:
    owner_names = ", ".join(f"{name}.OWNER" for name in OTHERS)
    owners = run(installed, "-c", f"import {', '.join(OTHERS)}; print({owner_names})")
    assert owners.count("somebody else") == len(OTHERS)
    command = installed.parent / "mailsift"
    assert run(command, "--version") == f"mailsift {version('mailsift')}\n"
    assert "valid" in run(command, "check", "--mode", "fast", "jane.doe@example.org")
    place = run(installed, "-c", "import mailsift.storage.states; print(mailsift.storage.states.__file__)")
    assert Path(place.strip()).is_relative_to(installed.parents[1])


def test_a_checkout_names_each_module_once() -> None:
    """Nothing is imported by the name of its folder, so that no module is there twice."""
    names = "sorted(name for name in sys.modules if name.partition('.')[0] in folders)"
    code = f"import mailsift.api.app, sys; folders = {sorted(FOLDERS)}; print({names})"
    assert run(sys.executable, "-c", code).strip() == "[]"
    code = "import mailsift.storage.states as module; print(module.__spec__.name, module.__file__)"
    place = ROOT / "mailsift" / "storage" / "states.py"
    assert run(sys.executable, "-c", code).split() == ["mailsift.storage.states", str(place)]


def test_the_session_of_the_docs_runs_word_for_word_in_what_was_installed(
    installed: Path, short_tmp: Path, tmp_path: Path
) -> None:
    blocks = [block for block in SHELL.findall(API_PAGE) if "# not run" not in block]
    assert len(blocks) == 12
    environment = {
        "PATH": f"{installed.parent}:/usr/bin:/bin",
        "MAILSIFT_HOME": str(short_tmp / "home"),
        "MAILSIFT_WORKER_PROCESSES": "1",
    }
    with serving(environment, short_tmp / "serve.log") as url:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
            cwd=tmp_path,
            env={**environment, "MAILSIFT_URL": url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    printed = done.stdout
    assert done.returncode == 0, printed
    assert '"suggestion":"Did you mean jane@gmail.com?"' in printed
    assert '"status":"completed"' in printed
    assert '"message":"The job is deleted."' in printed
    assert '{"email":"joe@@example.com","mailsift_reason":' in printed
    assert '"result":"mailbox_full"' in printed
    assert '"test":true' in printed
    results = (tmp_path / "results.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in results[1:]] == [
        ["Jane", "jane@example.com"],
        ["Joe", "joe@@example.com"],
    ]


@contextmanager
def serving(environment: dict[str, str], log: Path) -> Iterator[str]:
    """Run `mailsift serve` on any free port, as a newcomer has installed it, until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["mailsift", "serve", "--port", "0"],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield asyncio.run(address(log))
        process.terminate()
        assert process.wait(60) == 0
    finally:
        kill_group(process.pid)
        process.wait()
