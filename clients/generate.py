"""Makes the clients: what is written here by hand, and what generators make of the API's description.

`python clients/generate.py FOLDER` writes there the folders `python` and `typescript`, each a whole package,
the `openapi.json` they are made from, and what is built upon them. The generators come by
.ci/install-generators.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

from mailsift.api.app import create_app
from mailsift.api.parts import ApiParts

HERE: Final = Path(__file__).parent
GENERATORS: Final = Path(os.environ.get("MAILSIFT_GENERATORS", Path.home() / ".cache/mailsift-generators"))
_CONFIG: Final = "literal_enums: true\npost_hooks: []\n"


def generate(out: Path) -> None:
    """Write both packages below a folder, anew."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(HERE, out, ignore=shutil.ignore_patterns("__pycache__", "generate.py", "templates"))
    description = out / "openapi.json"
    parts = cast("ApiParts", SimpleNamespace(max_bytes=0, doors=()))  # a description asks nobody
    description.write_text(json.dumps(create_app(parts).openapi(), indent=1))
    _python(description, out / "python/mailsift_client/generated")
    _typescript(description, out / "typescript")
    (out / "n8n/node_modules").symlink_to(GENERATORS / "node_modules")


def _python(description: Path, target: Path) -> None:
    config = description.with_name("generator.yaml")
    config.write_text(_CONFIG)
    words = ("generate", "--path", description, "--config", config, "--meta", "none", "--output-path", target)
    ours = ("--custom-template-path", HERE / "templates", "--fail-on-warning")
    generator = (sys.executable, "-m", "openapi_python_client", *words, *ours)
    _run(*generator, path=GENERATORS / "python")
    config.unlink()


def _typescript(description: Path, package: Path) -> None:
    modules = GENERATORS / "node_modules"
    (package / "node_modules").symlink_to(modules)
    generator = modules / ".bin/openapi-typescript"
    optional = "--default-non-nullable=false"  # what has a default need not be sent
    _run(generator, description, optional, "--output", package / "src/generated.ts")


def _run(*words: str | Path, path: Path | None = None) -> None:
    environment = {**os.environ, "PYTHONPATH": str(path)} if path else None
    done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words[0]}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
