"""Who runs the sandbox's big mail servers: names, exchangers, and how much of the list they hold."""

from __future__ import annotations

from dataclasses import dataclass

from mailsift.sandbox.behaviours import HostPolicy, RecipientPolicy

GOOGLE = HostPolicy(mta="google")
ONLINE = HostPolicy(mta="exchange_online")
POSTFIX = HostPolicy()


@dataclass(frozen=True, slots=True)
class SandboxProvider:
    """A mail provider.

    Attributes:
        label: the world's name for it.
        exchangers: (preference, host name); `{domain}` is the customer's domain with dashes, `{n}` one of
            `pool` numbers: names that share a number share an address.
        free: its free-mail domains with their share of all rows in 1/10,000.
        business: its share of the business domains in 1/10,000.
        rcpt: what RCPT is answered with.
        unverifiable: its answers to RCPT mean nothing, so no verifier can know.
    """

    label: str
    exchangers: tuple[tuple[int, str], ...]
    policy: HostPolicy = POSTFIX
    free: tuple[tuple[str, int], ...] = ()
    business: int = 0
    pool: int = 1
    rcpt: RecipientPolicy = RecipientPolicy.MAILBOXES
    unverifiable: bool = False


PROVIDERS: tuple[SandboxProvider, ...] = (
    SandboxProvider(
        "google",
        (
            (5, "gmail-smtp-in.l.google.com"),
            (10, "alt1.gmail-smtp-in.l.google.com"),
            (20, "alt2.gmail-smtp-in.l.google.com"),
        ),
        GOOGLE,
        free=(("gmail.com", 2200), ("googlemail.com", 30)),
    ),
    SandboxProvider(
        "google",
        ((1, "aspmx.l.google.com"), (5, "alt1.aspmx.l.google.com"), (5, "alt2.aspmx.l.google.com")),
        GOOGLE,
        business=1800,
    ),
    SandboxProvider(
        "outlook",
        ((2, "{domain}.olc.protection.outlook.com"),),
        HostPolicy(mta="outlook"),
        free=(("outlook.com", 180), ("hotmail.com", 320), ("live.com", 60), ("msn.com", 30)),
        pool=4,
    ),
    SandboxProvider(
        "yahoo",
        ((1, "mta5.am0.yahoodns.net"), (1, "mta6.am0.yahoodns.net"), (1, "mta7.am0.yahoodns.net")),
        free=(("yahoo.com", 260), ("ymail.com", 20), ("aol.com", 70)),
        rcpt=RecipientPolicy.ACCEPT,
        unverifiable=True,
    ),
    SandboxProvider(
        "icloud",
        ((10, "mx01.mail.icloud.com"), (10, "mx02.mail.icloud.com")),
        free=(("icloud.com", 150), ("me.com", 30)),
    ),
    SandboxProvider(
        "gmx",
        ((10, "mx00.gmx.net"), (10, "mx01.gmx.net")),
        free=(("gmx.de", 60), ("gmx.net", 30), ("web.de", 60)),
    ),
    SandboxProvider(
        "microsoft365", ((0, "{domain}.mail.protection.outlook.com"),), ONLINE, business=1900, pool=24
    ),
    SandboxProvider(  # tenants without directory-based edge blocking: the message bounces later
        "microsoft365",
        ((0, "{domain}.mail.protection.outlook.com"),),
        ONLINE,
        business=300,
        pool=24,
        rcpt=RecipientPolicy.ACCEPT,
        unverifiable=True,
    ),
    SandboxProvider(
        "proofpoint",
        ((10, "mx0a-00{n:06x}.pphosted.com"), (10, "mx0b-00{n:06x}.pphosted.com")),
        HostPolicy(mta="sendmail"),
        business=200,
        pool=8,
    ),
    SandboxProvider(  # a gateway without a directory: the message bounces later
        "proofpoint",
        ((10, "mx0a-later.pphosted.com"), (10, "mx0b-later.pphosted.com")),
        HostPolicy(mta="sendmail"),
        free=(("gateway-later.sandbox.test", 0),),
        rcpt=RecipientPolicy.ACCEPT,
        unverifiable=True,
    ),
    SandboxProvider(  # with the defaults of its manual: 30 recipients a minute, blocks of three hours
        "forcepoint",
        ((10, "cust1-a.in.mailcontrol.com"),),
        HostPolicy(mta="exchange", per_minute=30),
        free=(("gateway.sandbox.test", 0),),
        rcpt=RecipientPolicy.GATEWAY,
    ),
    SandboxProvider(  # the same in a company of its own, whom no table knows
        "company-gateway.test",
        ((10, "mx.company-gateway.test"),),
        HostPolicy(mta="exchange", per_minute=30),
        free=(("own-gateway.sandbox.test", 0),),
        rcpt=RecipientPolicy.GATEWAY,
    ),
    SandboxProvider(
        "mimecast",
        ((10, "eu-smtp-inbound-1.mimecast.com"), (10, "eu-smtp-inbound-2.mimecast.com")),
        business=150,
    ),
    SandboxProvider("zoho", ((10, "mx.zoho.com"), (20, "mx2.zoho.com"), (50, "mx3.zoho.com")), business=150),
    SandboxProvider("ionos", ((10, "mx00.ionos.de"), (10, "mx01.ionos.de")), business=250),
)
"""Google stands twice: free mail and Workspace have exchangers of their own but one throttle key.
Microsoft 365 stands twice: tenants whose edge knows the directory, and tenants that accept everybody."""

_DISPOSABLE_TEXT = """
mailinator.com guerrillamail.com 10minutemail.com yopmail.com trashmail.com temp-mail.org sharklasers.com
getnada.com maildrop.cc dispostable.com mailnesia.com fakeinbox.com mintemail.com mohmal.com emailondeck.com
discard.email mytemp.email moakt.com tempinbox.com mailcatch.com grr.la spam4.me tempr.email mailsac.com
harakirimail.com
"""
DISPOSABLE = tuple(_DISPOSABLE_TEXT.split())
"""Throw-away domains everybody's list knows; here their servers work and accept everything."""

TYPOS = {
    "gmai.com": "nxdomain",
    "gnail.com": "nxdomain",
    "gmaill.com": "nxdomain",
    "gmail.con": "nxdomain",
    "gamil.com": "nxdomain",
    "hotmal.com": "nxdomain",
    "hotmail.con": "nxdomain",
    "yaho.com": "no-mail",
    "yahooo.com": "nxdomain",
    "yahoo.con": "nxdomain",
    "outlok.com": "no-mail",
    "outloook.com": "nxdomain",
    "iclod.com": "nxdomain",
    "gmail.co": "catch-all",
}
"""Slips of well-known domains and how they behave here."""
