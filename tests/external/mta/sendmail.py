"""Sendmail with a listener for every habit."""

from __future__ import annotations

from tests.external.chroot import Chroot
from tests.external.mta.domains import BLOCK_LIST, OTHERS, PEOPLE, Site

RECIPIENTS = 12
CONNECTIONS = 2
GREET_SECONDS = 0.2
_HABITS = ("plain", "catch-all", "elsewhere", "access")
SITES = {
    habit: Site(f"{habit}.sendmail.test", f"127.0.5.{number}") for number, habit in enumerate(_HABITS, 110)
}
"""The sites by habit; `elsewhere` is a domain this server knows nothing of."""

HURRIED = OTHERS[0]
"""Our address that may connect twice a minute only."""

# Its files lie where everybody may write, as all of this run's do.
_CONFIGURATION = f"""\
divert(-1)
include(`/usr/share/sendmail/cf/m4/cf.m4')
divert(0)
OSTYPE(`linux')
define(`confDONT_BLAME_SENDMAIL', `GroupWritableDirPathSafe,WorldWritableAliasFile,TrustStickyBit,\
GroupReadableKeyFile,NonRootSafeAddr,ErrorHeaderInUnsafeDirPath')
define(`ALIAS_FILE', `FOLDER/aliases')
define(`QUEUE_DIR', `FOLDER/queue')
define(`STATUS_FILE', `FOLDER/status')
define(`confPID_FILE', `FOLDER/pid')
define(`HELP_FILE', `')
define(`confCW_FILE', `-o FOLDER/none')
define(`confCR_FILE', `-o FOLDER/none')
define(`confDOMAIN_NAME', `mx.sendmail.test')
define(`confMAX_RCPTS_PER_MESSAGE', `{RECIPIENTS}')
define(`confTO_IDENT', `0')
define(`confBAD_RCPT_THROTTLE', `20')
define(`confPRIVACY_FLAGS', `authwarnings')
define(`LOCAL_MAILER_PATH', `/bin/true')
FEATURE(`no_default_msa')
FEATURE(`nocanonify')
FEATURE(`access_db', `hash FOLDER/access')
FEATURE(`blocklist_recipients')
FEATURE(`virtusertable', `hash FOLDER/virtual')
FEATURE(`dnsbl', `{BLOCK_LIST}')
FEATURE(`ratecontrol', `nodelay', `terminate')
FEATURE(`greet_pause', `{GREET_SECONDS * 1000:.0f}')
LISTENERS
LOCAL_DOMAIN(`DOMAINS')
MAILER(`local')
MAILER(`smtp')
"""
_LISTED = {"closed": "REJECT", "full": "ERROR:5.2.2:552 Mailbox full"}
_ACCESS = {
    **{f"To:{name}@{SITES['access'].domain}": says for name, says in _LISTED.items()},
    f"ClientRate:{HURRIED}": str(CONNECTIONS),
    "ClientRate:": "0",
}


def start_sendmail(chroot: Chroot) -> None:
    """Start Sendmail, and wait until every site answers."""
    folder = chroot.folder("sendmail")
    chroot.folder("sendmail/queue", mode=0o700)
    own = [site.domain for habit, site in SITES.items() if habit != "elsewhere"]
    boxes = {f"{person}@{SITES['plain'].domain}": f"{person}@inside.test" for person in PEOPLE}
    boxes |= {f"{name}@{SITES['access'].domain}": "nobody" for name in ("ann", "bob", *_LISTED)}
    boxes |= {f"@{domain}": "error:5.1.1:550 User unknown" for domain in own}
    boxes[f"@{SITES['catch-all'].domain}"] = "nobody"
    chroot.write("sendmail/aliases", "nobody: /dev/null\n")
    listeners = "".join(
        f"DAEMON_OPTIONS(`Port={chroot.port}, Addr={site.address}, Name={habit}')\n"
        for habit, site in SITES.items()
    )
    text = _CONFIGURATION.replace("FOLDER", folder).replace("LISTENERS", listeners)
    source = chroot.write("sendmail/sendmail.mc", text.replace("DOMAINS", " ".join(own)))
    config = chroot.write("sendmail/sendmail.cf", chroot.run("/usr/bin/m4", source))
    program = "/usr/libexec/sendmail/sendmail"
    for name, rows in {"virtual": boxes, "access": _ACCESS}.items():
        text = "".join(f"{key}\t{value}\n" for key, value in rows.items())
        chroot.run("/usr/libexec/sendmail/makemap", f"-C{config}", "hash", f"{folder}/{name}", given=text)
    chroot.run(program, "-bi", f"-C{config}")
    addresses = [site.address for site in SITES.values()]
    chroot.start([program, "-bD", f"-C{config}", "-q1h"], listening=addresses)
