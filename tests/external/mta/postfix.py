"""Postfix with a service for every habit, and Postgrey behind one of them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from tests.external.chroot import Chroot
from tests.external.mta.domains import BLOCK_LIST, NOBODY, PEOPLE, Site

GREYLISTING_SECONDS = 2
GREET_SECONDS = 2
RECIPIENTS = 6
_LOG_SECONDS = 10.0
_VERIFIES = ("smtpd_recipient_restrictions=reject_unverified_recipient", "relay_recipient_maps=")
_FOR_GOOD = "unverified_recipient_reject_code=550"
_HABITS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "catch-all": (),
    "local": (),
    "relay": (),
    "alias": (),
    "elsewhere": (),
    "silent": ("show_user_unknown_table_name=no",),
    "utf8": (),
    "ascii": ("smtputf8_enable=no",),
    "grey": ("smtpd_recipient_restrictions=check_policy_service unix:private/postgrey",),
    "screen": (),
    "deep-screen": (),
    "reverse": ("smtpd_client_restrictions=reject_unknown_reverse_client_hostname",),
    "reverse-550": (
        "smtpd_client_restrictions=reject_unknown_reverse_client_hostname",
        "unknown_client_reject_code=550",
    ),
    "reverse-at-once": (
        "smtpd_client_restrictions=reject_unknown_reverse_client_hostname",
        "smtpd_delay_reject=no",
    ),
    "confirmed": ("smtpd_client_restrictions=reject_unknown_client_hostname",),
    "helo": ("smtpd_helo_restrictions=reject_unknown_helo_hostname", "smtpd_helo_required=yes"),
    "helo-550": (
        "smtpd_helo_restrictions=reject_unknown_helo_hostname",
        "unknown_hostname_reject_code=550",
    ),
    "listed": (f"smtpd_client_restrictions=reject_rbl_client {BLOCK_LIST}",),
    "sender": ("smtpd_sender_restrictions=check_sender_access inline:{{<>=REJECT}}",),
    "soft-bounce": ("soft_bounce=yes",),
    "few-recipients": (f"smtpd_recipient_limit={RECIPIENTS}",),
    "few-errors": ("smtpd_hard_error_limit=4", "smtpd_error_sleep_time=0"),
    "few-sessions": ("smtpd_client_connection_count_limit=2",),
    "slow-sessions": ("smtpd_client_connection_rate_limit=2",),
    "slow-recipients": (f"smtpd_client_recipient_rate_limit={RECIPIENTS}",),
    # Two that ask the server behind before they answer, one whose question comes back to itself, one whose
    # server behind is down, and one whose server behind refuses the questions of this one.
    "verify": _VERIFIES,
    "verify-550": (*_VERIFIES, _FOR_GOOD),
    "verify-loop": (*_VERIFIES, _FOR_GOOD),
    "verify-down": (*_VERIFIES, _FOR_GOOD),
    "verify-refused": (*_VERIFIES, _FOR_GOOD),
    "behind": (),
    "behind-closed": ("smtpd_client_restrictions=reject",),
    "tls": ("smtpd_tls_security_level=may",),
    "tls-only": ("smtpd_tls_security_level=encrypt",),
    "tls-broken": ("smtpd_tls_security_level=may", "smtpd_tls_protocols=<=TLSv1"),
}
SITES = {
    habit: Site(f"{habit}.postfix.test", f"127.0.5.{number}") for number, habit in enumerate(_HABITS, 10)
}
"""The sites by habit; `elsewhere` is a domain this server knows nothing of."""

_ACCESS = {
    "members": "REJECT",
    "full": "552 5.2.2 Quota exceeded (mailbox for user is full)",
    "closed": "REJECT 5.2.1 Account disabled",
}
"""What an access map says about some recipients of `plain`."""

_CLASSES = {
    "mydestination": "local",
    "relay_domains": "relay",
    "virtual_alias_domains": "alias",
}
_QUEUES = ("incoming", "active", "defer", "deferred", "hold", "bounce", "trace", "corrupt")
_VERIFYING = tuple(habit for habit in _HABITS if habit.startswith("verify"))
"""Habits of servers that hold their domain for others."""
_SERVICES = """\
anvil     unix - - n - 1 anvil
cleanup   unix n - n - 0 cleanup
rewrite   unix - - n - - trivial-rewrite
proxymap  unix - - n - - proxymap
tlsmgr    unix - - n 1000? 1 tlsmgr
qmgr      unix n - n 300 1 qmgr
verify    unix - - n - 1 verify
smtp      unix - - n - - smtp
relay     unix - - n - - smtp
bounce    unix - - n - 0 bounce
defer     unix - - n - 0 bounce
trace     unix - - n - 0 bounce
error     unix - - n - - error
retry     unix - - n - - error
dnsblog   unix - - n - 0 dnsblog
tlsproxy  unix - - n - 0 tlsproxy
postlog   unix-dgram n - n - 1 postlogd
smtpd     pass - - n - - smtpd
"""


def start_postfix(chroot: Chroot) -> None:
    """Start Postgrey and Postfix, and wait until every site answers."""
    for name in (*_QUEUES, "private"):
        chroot.folder(f"postfix/spool/{name}", user="postfix", mode=0o700)
    chroot.folder("postfix/spool/public", user="postfix")
    chroot.folder("postfix/spool/pid")
    chroot.folder("postfix/data", user="postfix", mode=0o700)
    chroot.write_certificate("postfix/tls.pem")
    folder = chroot.folder("postfix/etc")
    chroot.write("postfix/etc/main.cf", _main(chroot))
    chroot.write("postfix/etc/master.cf", _master(chroot.port))
    _start_postgrey(chroot)
    addresses = [site.address for site in SITES.values()]
    chroot.start(["/usr/lib/postfix/sbin/master", "-c", folder], listening=addresses)


def log_of(chroot: Chroot) -> str:
    """Return what Postfix has logged up to now."""
    return (chroot.home / "postfix/log").read_text()


def logged(chroot: Chroot, pattern: str) -> str:
    """Wait until Postfix has logged something, which it does in its own time; return the log up to now."""
    ends_at = time.monotonic() + _LOG_SECONDS
    while True:
        log = log_of(chroot)
        if re.search(pattern, log):
            return log
        assert time.monotonic() < ends_at, f"not in the log: {pattern}"
        time.sleep(0.02)


def _start_postgrey(chroot: Chroot) -> None:
    base = chroot.folder("postgrey", user="postgrey")
    chroot.start(
        [
            "/usr/sbin/postgrey",
            f"--unix={chroot.inside(chroot.home)}/postfix/spool/private/postgrey",
            f"--delay={GREYLISTING_SECONDS}",
            "--auto-whitelist-clients=0",  # every test is greylisted, not only the first few
            f"--dbdir={base}",
            f"--pidfile={base}/pid",
            "--user=root",
            "--group=root",
        ],
        listening=[],
    )


def _main(chroot: Chroot) -> str:
    home = f"{chroot.inside(chroot.home)}/postfix"
    boxes = {f"{person}@{site.domain}" for site in SITES.values() for person in (*PEOPLE, *_ACCESS)}
    boxes |= {f"@{SITES['catch-all'].domain}", f"jürgen@{SITES['utf8'].domain}"}
    chroot.write("postfix/boxes", "".join(f"{box} x\n" for box in sorted(boxes)))
    chroot.write("postfix/aliases", f"ann@{SITES['alias'].domain} ann@{SITES['local'].domain}\n")
    access = "".join(f"{name}@{SITES['plain'].domain} {action}\n" for name, action in _ACCESS.items())
    chroot.write("postfix/access", access)
    other = {*_CLASSES.values(), "elsewhere", *_VERIFYING, "behind", "behind-closed"}
    virtual = [site.domain for habit, site in SITES.items() if habit not in other]
    settings = {
        "compatibility_level": "3.6",
        "queue_directory": f"{home}/spool",
        "data_directory": f"{home}/data",
        "daemon_directory": "/usr/lib/postfix/sbin",
        "command_directory": "/usr/sbin",
        "maillog_file": f"{home}/log",
        "maillog_file_prefixes": home,
        "myhostname": "mx.postfix.test",
        "in_flow_delay": "0",  # or every session waits for a queue manager that this world does without
        "mynetworks": "127.0.0.1",
        **{name: SITES[habit].domain for name, habit in _CLASSES.items()},
        "relay_domains": ", ".join(SITES[habit].domain for habit in ("relay", *_VERIFYING)),
        "transport_maps": f"inline:{{ {', '.join(_routes(chroot.port))} }}",
        "proxy_interfaces": ", ".join(site.address for site in SITES.values()),
        "address_verify_map": "",
        "address_verify_poll_count": "1",
        "virtual_mailbox_domains": ", ".join(virtual),
        "virtual_mailbox_maps": f"texthash:{home}/boxes",
        "virtual_alias_maps": f"texthash:{home}/aliases",
        "relay_recipient_maps": f"texthash:{home}/boxes",
        "local_recipient_maps": f"texthash:{home}/boxes",
        "smtpd_recipient_restrictions": f"check_recipient_access texthash:{home}/access",
        "smtpd_relay_restrictions": "reject_unauth_destination",
        "smtpd_client_event_limit_exceptions": "",
        "anvil_rate_time_unit": "2s",
        "smtpd_tls_security_level": "none",
        "smtpd_tls_chain_files": f"{home}/tls.pem",
        "smtpd_tls_loglevel": "1",
        "postscreen_access_list": "",
        "postscreen_greet_wait": f"{GREET_SECONDS}s",
        "postscreen_greet_action": "enforce",
    }
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


def _routes(port: int) -> list[str]:
    """Return where mail goes that this server asks others about."""
    behind = {
        "verify": SITES["behind"],
        "verify-550": SITES["behind"],
        "verify-down": Site("", NOBODY),
        "verify-refused": SITES["behind-closed"],
    }
    return [f"{{ {SITES[habit].domain} = smtp:[{site.address}]:{port} }}" for habit, site in behind.items()]


def _master(port: int) -> str:
    lines = [_SERVICES]
    for habit, site in SITES.items():
        screened = habit.endswith("screen")
        program, most = ("postscreen", "1") if screened else ("smtpd", "-")
        options = [*_HABITS[habit], *(_screen(habit) if screened else ())]
        lines.append(f"{site.address}:{port} inet n - n - {most} {program}\n")
        lines += [f"  -o {{ {option} }}\n" for option in options]
    return "".join(lines)


def _screen(habit: str) -> list[str]:
    options = [f"postscreen_cache_map=internal:{habit}"]
    if habit.startswith("deep"):
        options += ["postscreen_pipelining_enable=yes", "postscreen_pipelining_action=enforce"]
    return options
