"""OpenSMTPD with a listener for every habit; its spool and its users are the ones it was built with."""

from __future__ import annotations

from tests.external.chroot import Chroot
from tests.external.mta.domains import PEOPLE, Site

_HABITS = {
    "plain": "",
    "catch-all": "",
    "elsewhere": "",
    "system": "",
    "reverse": "filter reverse",
    "confirmed": "filter confirmed",
    "helo": "filter greeting",
    "later": "filter later",
    "few-recipients": "",
    "tls": "tls pki world",
}
SITES = {
    habit: Site(f"{habit}.opensmtpd.test", f"127.0.5.{number}") for number, habit in enumerate(_HABITS, 90)
}
"""The sites by habit; `elsewhere` is a domain this server knows nothing of."""

RECIPIENTS = 10

# The words of the filters are those of the examples in filters' manual, smtpd.conf(5).
_FILTERS = """\
filter reverse phase connect match !rdns disconnect "550 no rDNS is so 80s"
filter confirmed phase connect match !fcrdns disconnect "550 no FCrDNS is so 80s"
filter greeting phase ehlo match helo { "no-such.test" } reject "550 go away"
filter later phase rcpt-to match !auth reject "421 try again later"
"""


def start_opensmtpd(chroot: Chroot) -> None:
    """Start OpenSMTPD, and wait until every site answers."""
    folder = chroot.folder("opensmtpd")
    certificate = chroot.write_certificate("opensmtpd/tls.pem")
    own = [site.domain for habit, site in SITES.items() if habit not in {"elsewhere", "system", "catch-all"}]
    boxes = [f'"{person}@{domain}" = nobody' for person in PEOPLE for domain in own]
    boxes.append(f'"@{SITES["catch-all"].domain}" = nobody')
    domains = ", ".join(f'"{domain}"' for domain in (*own, SITES["catch-all"].domain))
    listeners = "".join(
        f"listen on {site.address} port {chroot.port} hostname mx.opensmtpd.test {_HABITS[habit]}\n"
        for habit, site in SITES.items()
    )
    text = f"""\
pki world cert "{certificate}"
pki world key "{certificate}"
smtp limit max-rcpt {RECIPIENTS}
table boxes {{ {", ".join(boxes)} }}
{_FILTERS}
{listeners}
action "virtual" maildir "{folder}/mail" virtual <boxes>
action "system" maildir "{folder}/mail"
match from any for domain {{ {domains} }} action "virtual"
match from any for domain "{SITES["system"].domain}" action "system"
"""
    config = chroot.write("opensmtpd/smtpd.conf", text)
    addresses = [site.address for site in SITES.values()]
    chroot.start(["/usr/sbin/smtpd", "-d", "-f", config], listening=addresses)
