"""The services of compose.yaml as processes: the same commands and variables, other hosts and ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mailsift.sandbox.client import SandboxProcess
from tests.support import debian
from tests.support.debian import daemon, listens
from tests.support.deploy_files import DEPLOY, compose, image_environment, service_environment, stages
from tests.support.ports import free_port
from tests.support.workers import ROOT

_UID = 10001
_HOME, _SECRETS = (
    Path("/media"),
    Path("/srv"),
)  # folders every Debian has; in the mount namespace they are ours
_KEPT = "dac_read_search"  # the interpreter of a checkout may lie where only its owner looks
_MOUNTS = """\
set -e
mount --bind "$1" %s
mount --bind "$2" %s
mount --bind "$3" /mnt
mount -o remount,bind,ro /
mount -t tmpfs -o mode=1777 tmpfs /tmp
case "$3" in /tmp/*) mkdir -p "$3" && mount --bind /mnt "$3" ;; esac
shift 3
exec "$@"
"""
OVERRIDES = "[limits]\nrate = 5000\nburst = 500\n"


@dataclass
class ComposeServices:
    """Services of ours that run on servers of Debian's; one after the other as compose would start them."""

    folder: Path
    sandbox: SandboxProcess
    resolver_port: int
    database_url: str = ""
    redis_port: int = 0
    api_port: int = field(default_factory=free_port)
    _stack: ExitStack = field(default_factory=ExitStack)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "services.log"

    def environment(self, name: str) -> dict[str, str]:
        """Return what a service is told; beside hosts and ports only what makes the sandbox its internet."""
        environment = {**service_environment(name), "PATH": os.environ["PATH"]}  # noqa: TID251 - for a child
        moved = {
            "MAILSIFT_HOME": str(_HOME),
            "MAILSIFT_SECRETS_DIR": str(_SECRETS),
            "MAILSIFT_DNS_SERVERS": f"127.0.0.1:{self.resolver_port}",
            "MAILSIFT_API_PORT": str(self.api_port),
            "MAILSIFT_METRICS_PORT": str(free_port()),
        }
        assert set(moved) <= set(environment), "only what is there can be moved"
        world = {
            **{key: value for key, value in self.sandbox.env.items() if key != "MAILSIFT_DNS_SERVERS"},
            "MAILSIFT_OVERRIDES": str(_HOME / "overrides.toml"),
            "MAILSIFT_GREYLIST_DELAYS": "2,4,8",
        }
        return {**environment, **moved, **world, "PYTHONPATH": str(ROOT)}

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a command of the image as a container would run it: read-only, without rights."""
        (entry,) = (
            line.words
            for line in stages((DEPLOY / "Dockerfile").read_text())["mailsift"]
            if line.name == "ENTRYPOINT"
        )
        assert entry == '["mailsift"]'
        unprivileged = [
            *("setpriv", f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups", "--no-new-privs"),
            *(f"--inh-caps=-all,+{_KEPT}", f"--ambient-caps=-all,+{_KEPT}", f"--bounding-set=-all,+{_KEPT}"),
        ]
        mounts = _MOUNTS % (_HOME, _SECRETS)
        return [
            *("unshare", "--mount", "--propagation=private", "sh", "-c", mounts, "sh"),
            *(str(self.folder / "data"), str(self.folder / "secrets"), str(ROOT)),
            *(*unprivileged, sys.executable, "-m", "mailsift", *words),
        ]

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in the place of a service; without words, the service's own."""
        return subprocess.run(
            self.command(words or compose()["services"][name]["command"]),
            check=False,
            capture_output=True,
            text=True,
            env=self.environment(name),
            timeout=120,
        )

    def start(self, name: str) -> None:
        """Start a service and wait until its health check says that it is well."""
        environment = self.environment(name)
        healthy = self._check(name, environment)
        command = self.command(compose()["services"][name]["command"])
        self.running[name] = self._stack.enter_context(
            daemon(command, log=self.log, up=healthy, environment=environment)
        )

    def _check(self, name: str, environment: Mapping[str, str]) -> _Check:
        kind, *check = compose()["services"][name]["healthcheck"]["test"]
        assert (kind, check[0]) == ("CMD", "python")
        image = image_environment()
        for variable in ("MAILSIFT_API_PORT", "MAILSIFT_METRICS_PORT"):
            check = [re.sub(rf":{image[variable]}/", f":{environment[variable]}/", word) for word in check]
        return _Check([sys.executable, *check[1:]])

    def stop(self, name: str) -> int:
        """Stop a service as compose would; returns its status."""
        return debian.end(self.running[name])

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True, slots=True)
class _Check:
    command: list[str]

    def __call__(self) -> bool:
        done = subprocess.run(self.command, check=False, capture_output=True, timeout=30)
        return done.returncode == 0


@contextmanager
def compose_house(folder: Path, sandbox: SandboxProcess) -> Iterator[ComposeServices]:
    """The servers of compose.yaml from Debian's packages, with the secrets that `make-secrets` makes."""
    secrets = folder / "secrets"
    subprocess.run([DEPLOY / "make-secrets", secrets], check=True, capture_output=True)
    secrets.chmod(0o755)
    (folder / "data").mkdir(mode=0o700)
    (folder / "data/overrides.toml").write_text(OVERRIDES)
    for path in (folder / "data", folder / "data/overrides.toml"):
        os.chown(path, _UID, _UID)
    password = (secrets / "postgres_password").read_text().strip()
    with ExitStack() as stack:
        database = stack.enter_context(debian.postgres(password=password))
        config = DEPLOY / "valkey/valkey.conf"
        redis_port = stack.enter_context(debian.redis(config=config, acl=secrets / "valkey_acl"))
        _move(
            secrets / "mailsift_database_url", "postgres:5432", database.partition("@")[2].partition("/")[0]
        )
        _move(secrets / "mailsift_redis_url", "valkey:6379", f"127.0.0.1:{redis_port}")
        resolver_port = stack.enter_context(_unbound(folder, sandbox.dns_port))
        services = ComposeServices(folder, sandbox, resolver_port, database, redis_port)
        stack.callback(services.close)
        yield services


def _move(secret: Path, there: str, here: str) -> None:
    text = secret.read_text()
    assert there in text
    secret.chmod(0o644)
    secret.write_text(text.replace(there, here))


@contextmanager
def _unbound(folder: Path, world: int) -> Iterator[int]:
    """Run unbound as configured, but that it asks the sandbox instead of the root, which signs nothing."""
    port = free_port()
    text = (DEPLOY / "unbound/unbound.conf").read_text()
    for there, here in {
        "interface: 0.0.0.0@5353": f"interface: 127.0.0.1@{port}",
        "    interface: ::0@5353\n": "",
        '    root-hints: "/usr/share/dns/root.hints"\n': "",
        '    trust-anchor-file: "/usr/share/dns/root.key"\n': "",
        '"/run/unbound/control"': f'"{folder}/control"',
        "remote-control:": (
            '    module-config: "iterator"\n    do-not-query-localhost: no\n'
            '    local-zone: "test." nodefault\n'
            f'forward-zone:\n    name: "."\n    forward-addr: 127.0.0.1@{world}\nremote-control:'
        ),
    }.items():
        assert there in text, there
        text = text.replace(there, here)
    given = folder / "unbound.conf"
    given.write_text(text)
    with daemon(["unbound", "-d", "-p", "-c", given], log=folder / "unbound.log", up=lambda: listens(port)):
        yield port
