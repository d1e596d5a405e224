"""The mail providers that need more than the default row: data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """How to deal with one provider's mail servers.

    The limits hold for one source address and are where the throttle starts; it adapts from there.

    Attributes:
        key: throttle key.
        suffixes: MX host names end with one of these, on a label boundary.
        informative: its answers to RCPT say something about the mailbox; where False the verdict is
            `unverifiable`. Providers whose *tenants* differ are informative: the random probe tells.
        sessions: SMTP sessions open at the same time.
        rate: RCPT commands a second, all sessions together.
        burst: RCPT commands that may go at once after a pause; a full session by default.
        recipients: RCPT commands in one session.
        note: why the row is as it is; for people.
    """

    key: str
    suffixes: tuple[str, ...] = ()
    informative: bool = True
    sessions: int = 5
    rate: float = 5.0
    burst: int = 50
    recipients: int = 50
    note: str = ""


DEFAULT = Provider(
    "default",
    recipients=8,
    burst=40,
    note="everybody else, mostly Postfix: after 10 refused recipients in a session it makes every "
    "further one wait, after 20 it hangs up (smtpd_soft_error_limit, smtpd_hard_error_limit)",
)
"""The row of keys that are not in the table."""


def _watchful(key: str, *suffixes: str, informative: bool = True, note: str = "") -> Provider:
    """One that looks closely at unknown senders: one RCPT a second, short sessions."""
    return Provider(key, suffixes, informative=informative, rate=1.0, burst=20, recipients=20, note=note)


def _shared(key: str, *suffixes: str, note: str = "") -> Provider:
    """One that serves many domains and counts what a source does to all of them: two RCPT a second."""
    return Provider(key, suffixes, rate=2.0, note=note)


_WORKMAIL = tuple(
    f"inbound-smtp.{region}.amazonaws.com" for region in ("us-east-1", "us-west-2", "eu-west-1")
)

PROVIDERS = (
    # The giants.
    _shared(
        "google", "google.com", "googlemail.com", "psmtp.com", note="Gmail and Workspace: 5.1.1 means it"
    ),
    _watchful(
        "outlook",
        "olc.protection.outlook.com",
        note="outlook.com, hotmail.com, live.com: refusals (5.5.0) mean it, but unknown senders are blocked",
    ),
    _shared(
        "microsoft365",
        "mail.protection.outlook.com",
        "mx.microsoft",
        "mail.protection.partner.outlook.cn",
        note="per tenant: 5.4.1 or 5.1.10 with directory blocking, else accepts all",
    ),
    _watchful(
        "yahoo",
        "yahoodns.net",
        informative=False,
        note="Yahoo, AOL, Verizon, AT&T, Sky: accepts at RCPT and refuses after DATA",
    ),
    _watchful("yahoo_japan", "yahoo.co.jp", note="has nothing to do with yahoodns.net"),
    _watchful("icloud", "icloud.com", note="refuses unknown mailboxes once the source has a reputation"),
    # Filters in front of many customers.
    _shared("proofpoint", "pphosted.com", "ppe-hosted.com", "gpphosted.com", note="per tenant"),
    _shared(
        "mimecast",
        "mimecast.com",
        "mimecast.co.za",
        "mimecast-offshore.com",
        note="per tenant; greylists as 'internal resources are temporarily unavailable'",
    ),
    _shared(
        "barracuda",
        "barracudanetworks.com",
        note="per tenant; greylists as 'Recipient address rejected: Greylisted'",
    ),
    _shared("cisco", "iphmx.com", note="per tenant; judges the reputation of the source first"),
    _shared("messagelabs", "messagelabs.com", note="per tenant"),
    _shared("trendmicro", "trendmicro.com", "trendmicro.eu", "trendmicro.co.jp", note="per tenant"),
    _shared("sophos", "hydra.sophos.com", "reflexion.net", note="per tenant"),
    _shared("forcepoint", "mailcontrol.com", note="per tenant"),
    _shared("trellix", "fireeyecloud.com", "fireeyegov.com", note="per tenant"),
    _shared("hornetsecurity", "hornetsecurity.com", "antispameurope.com", note="per tenant"),
    _shared("n_able", "antispamcloud.com", "mtaroutes.com", "spamexperts.com", note="per tenant"),
    _shared("cloudmark", "cloudfilter.net", note="in front of several carriers"),
    _shared("cloudflare", "mx.cloudflare.net", note="forwards; refuses what has no rule"),
    # Hosters of business mail.
    _shared("zoho", "zoho.com", "zoho.eu", "zoho.in", "zohomail.com", "zohomail.eu"),
    _shared(
        "ionos",
        "kundenserver.de",
        "perfora.net",
        *("1and1.com", "1and1.co.uk"),
        *("ionos.com", "ionos.de", "ionos.co.uk", "ionos.fr", "ionos.es"),
    ),
    _shared("strato", "rzone.de"),
    _shared("ovh", "ovh.net", "ovh.ca"),
    _shared("workmail", *_WORKMAIL, note="Amazon WorkMail, and SES receiving"),
    _shared("rackspace", "emailsrvr.com"),
    _shared("godaddy", "secureserver.net"),
    _shared("aliyun", "mxhichina.com", "aliyun.com"),
    # Mailbox providers.
    _shared("fastmail", "messagingengine.com"),
    _shared("protonmail", "protonmail.ch"),
    _shared("yandex", "yandex.ru", "yandex.net", note="often accepts all: the random probe tells"),
    _shared("mailru", "mail.ru", note="often accepts all: the random probe tells"),
    _shared("gmx", "gmx.net", "web.de", "mail.com", note="refuses sources without a proper reverse name"),
    _shared("seznam", "seznam.cz"),
    _shared("libero", "libero.it", "iol.it", "virgilio.it"),
    _watchful("tonline", "t-online.de", note="refuses unknown sources at connect, 554"),
    _watchful("orange", "orange.fr", "wanadoo.fr", note="few sessions a source"),
    _watchful("free", "free.fr", "proxad.net", note="greylists unknown sources"),
    _watchful("sfr", "sfr.fr", "sfr.net"),
    _watchful("laposte", "laposte.net"),
    _watchful("comcast", "comcast.net"),
    _watchful("cox", "cox.net"),
    _watchful("charter", "charter.net", "rr.com"),
    _watchful("att", "prodigy.net", "att.net"),
    _watchful("qq", "qq.com", note="qq.com and Tencent Exmail"),
    _watchful("netease", "netease.com", "163.com", "126.com", "yeah.net"),
    _watchful("naver", "naver.com", "worksmobile.com"),
    _watchful("daum", "hanmail.net", "daum.net", "kakao.com"),
    _watchful("kddi", "ezweb.ne.jp", "au.com", "dion.ne.jp", "auone-net.jp"),
    _watchful("docomo", "docomo.ne.jp"),
    _watchful("softbank", "softbank.ne.jp", "softbank.jp"),
)
"""A tenant's accept-all or blanket refusal is not in here: the random probe finds it, domain by domain."""
