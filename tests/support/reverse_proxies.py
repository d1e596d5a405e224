"""nginx and Caddy as deploy/ configures them, on ports of a test's own and with a certificate of its own."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.support.debian import daemon, listens
from tests.support.deploy_files import DEPLOY
from tests.support.ports import free_port

NAME = "mailsift.example.com"


@dataclass(frozen=True, slots=True)
class Front:
    """A front that is up: its two ports, and who vouches for its certificate."""

    http: int
    https: int
    trust: ssl.SSLContext


def write_certificate(folder: Path, name: str) -> ssl.SSLContext:
    """Write `fullchain.pem` and `privkey.pem`; returns a context that trusts them."""
    authority = trustme.CA()
    certificate = authority.issue_cert(name)
    certificate.private_key_pem.write_to_path(str(folder / "privkey.pem"))
    chain = b"".join(pem.bytes() for pem in certificate.cert_chain_pems)
    (folder / "fullchain.pem").write_bytes(chain)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def nginx_config(folder: Path, *, http: int, https: int, upstream: int) -> Path:
    """Write a whole configuration around deploy/nginx/mailsift.conf; only addresses and folders differ."""
    site = (DEPLOY / "nginx/mailsift.conf").read_text()
    site = site.replace("/etc/mailsift/tls", str(folder)).replace("127.0.0.1:8025", f"127.0.0.1:{upstream}")
    site = site.replace("/var/log/nginx", str(folder))
    site = re.sub(r"listen \[::\]:.*\n", "", site)
    site = site.replace("listen 80 ", f"listen 127.0.0.1:{http} ").replace(
        "listen 443 ", f"listen 127.0.0.1:{https} "
    )
    (folder / "mailsift.conf").write_text(site)
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\npid {folder}/pid;\nerror_log stderr;\nworker_processes 1;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{folders}include {folder}/mailsift.conf;\n}}\n"
    )
    return config


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[Front]:
    """Run nginx in front of the upstream's port."""
    http, https = free_port(), free_port()
    trust = write_certificate(folder, NAME)
    config = nginx_config(folder, http=http, https=https, upstream=upstream)
    with daemon(["nginx", "-c", config], log=folder / "nginx.log", up=lambda: listens(https)):
        yield Front(http, https, trust)


@contextmanager
def caddy(folder: Path, upstream: int) -> Iterator[Front]:
    """Run Caddy in front of the upstream's port."""
    http, https = free_port(), free_port()
    trust = write_certificate(folder, NAME)
    text = (DEPLOY / "caddy/Caddyfile").read_text()
    text = text.replace(
        "\tauto_https", f"\thttp_port {http}\n\thttps_port {https}\n\tadmin off\n\tauto_https", 1
    )
    site = "\n{$SITE:localhost} {\n"
    assert site in text
    text = text.replace(site, f"{site}\ttls {folder}/fullchain.pem {folder}/privkey.pem\n")
    given = folder / "Caddyfile"
    given.write_text(text)
    environment = {"SITE": NAME, "UPSTREAM": f"127.0.0.1:{upstream}", "HOME": str(folder)}
    argv: list[str | Path] = ["caddy", "run", "--adapter", "caddyfile", "--config", given]
    with daemon(argv, log=folder / "caddy.log", up=lambda: listens(https), environment=environment):
        yield Front(http, https, trust)


FRONTS: dict[str, Callable[[Path, int], AbstractContextManager[Front]]] = {"nginx": nginx, "caddy": caddy}
