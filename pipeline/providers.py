"""Who runs an MX host, how much may be asked there and whether the answers mean something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from publicsuffixlist import PSLFILE, PublicSuffixList, encode_idn

from mailsift.pipeline.overrides import bad_overrides, read_overrides


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
        ceiling: RCPT commands a second that a source may earn with its name (mailsift.pipeline.throttle);
            0 = it is always asked at its rate.
        harvest: unknown recipients of a minute at which it blocks a source for hours, where they are half of
            all; 0 = not known to (mailsift.storage.redis.local_throttle).
        careful: the same of one that nobody knows, until it is seen to serve many domains: it may be some
            company's own gateway; 0 = it is taken for harmless.
        edge: its servers stand before those that know the mailboxes: a tenant that accepts everybody may
            still bounce the message.
        note: why the row is as it is; for people.
    """

    key: str
    suffixes: tuple[str, ...] = ()
    informative: bool = True
    sessions: int = 5
    rate: float = 5.0
    burst: int = 50
    recipients: int = 50
    ceiling: float = 0.0
    harvest: int = 0
    careful: int = 0
    edge: bool = False
    note: str = ""

    @property
    def is_unhurried(self) -> bool:
        """Whether only its sessions limit us, full ones that take no longer than a server nearby."""
        return self.rate * _BRIEF_SESSION_S >= self.sessions * self.recipients


_BRIEF_SESSION_S: Final = 0.2
"""At 300 a second, with ten sessions of 20 that end at once, the rate is what limits us: a second chunk
beside the first made twice as many sessions of the same addresses."""


DEFAULT = Provider(
    "default",
    recipients=8,
    burst=40,
    careful=5,
    note="everybody else, mostly Postfix: after 10 refused recipients in a session it makes every "
    "further one wait, after 20 it hangs up (smtpd_soft_error_limit, smtpd_hard_error_limit)",
)
"""The row of keys that are not in the table."""


def _watchful(key: str, suffixes: str, note: str = "", *, informative: bool = True) -> Provider:
    """One that looks closely at unknown senders: one RCPT a second, short sessions."""
    return Provider(
        key,
        tuple(suffixes.split()),
        informative=informative,
        rate=1.0,
        burst=20,
        recipients=20,
        ceiling=4.0,
        note=note,
    )


def _shared(key: str, suffixes: str, note: str = "") -> Provider:
    """One that serves many domains and counts what a source does to all of them: two RCPT a second."""
    return Provider(key, tuple(suffixes.split()), rate=2.0, ceiling=16.0, note=note)


def _gateway(key: str, suffixes: str, note: str = "per tenant") -> Provider:
    """One whose customers' mailboxes are elsewhere: a tenant may accept everybody at the edge."""
    return replace(_shared(key, suffixes, note), edge=True)


# fmt: off
PROVIDERS = (
    # The giants.
    _shared("google", "google.com googlemail.com psmtp.com", "Gmail and Workspace: 5.1.1 means it"),
    _watchful("outlook", "olc.protection.outlook.com",
        "outlook.com, hotmail.com, live.com: refusals (5.5.0) mean it, but unknown senders are blocked"),
    _gateway("microsoft365", "mail.protection.outlook.com mx.microsoft mail.protection.partner.outlook.cn",
        "per tenant: 5.4.1 or 5.1.10 with directory blocking, else accepts all"),
    _watchful("yahoo", "yahoodns.net",
        "Yahoo, AOL, Verizon, AT&T, Sky: accepts at RCPT and refuses after DATA", informative=False),
    _watchful("yahoo_japan", "yahoo.co.jp", "has nothing to do with yahoodns.net"),
    _watchful("icloud", "icloud.com", "refuses unknown mailboxes once the source has a reputation"),
    # Filters in front of many customers.
    _gateway("proofpoint", "pphosted.com ppe-hosted.com gpphosted.com"),
    _gateway("mimecast", "mimecast.com mimecast.co.za mimecast-offshore.com",
        "per tenant; greylists as 'internal resources are temporarily unavailable'"),
    _gateway("barracuda", "barracudanetworks.com",
        "per tenant; greylists as 'Recipient address rejected: Greylisted'"),
    _gateway("cisco", "iphmx.com", "per tenant; judges the reputation of the source first"),
    _gateway("messagelabs", "messagelabs.com"),
    _gateway("trendmicro", "trendmicro.com trendmicro.eu trendmicro.co.jp"),
    _gateway("sophos", "hydra.sophos.com reflexion.net"),
    replace(
        _gateway("forcepoint", "mailcontrol.com",
            "30 recipients a minute, and blocks of 3 h at 5 unknown ones and 50 % are its defaults"),
        rate=0.25, burst=15, recipients=15, ceiling=0.0, harvest=5),
    _gateway("trellix", "fireeyecloud.com fireeyegov.com"),
    _gateway("hornetsecurity", "hornetsecurity.com antispameurope.com"),
    _gateway("n_able", "antispamcloud.com mtaroutes.com spamexperts.com"),
    _gateway("appriver", "arsmtp.com"),
    _gateway("mailroute", "mailroute.net"),
    _gateway("sonicwall", "snwlhosted.com"),
    _gateway("fortimail", "fortimailcloud.com"),
    _gateway("libraesva", "esvacloud.com"),
    _gateway("vade", "vadesecure.com"),
    _gateway("retarus", "retarus.com"),
    _gateway("mailguard", "mailguard.com.au"),
    _gateway("securence", "securence.com"),
    _gateway("duocircle", "duocircle.com"),
    _gateway("cloudmark", "cloudfilter.net", "in front of several carriers"),
    _shared("cloudflare", "mx.cloudflare.net", "forwards; refuses what has no rule"),
    # Hosters of business mail.
    _shared("zoho", "zoho.com zoho.eu zoho.in zohomail.com zohomail.eu"),
    _shared("ionos", "kundenserver.de perfora.net 1and1.com 1and1.co.uk "
        "ionos.com ionos.de ionos.co.uk ionos.fr ionos.es"),
    _shared("strato", "rzone.de"),
    _shared("ovh", "ovh.net ovh.ca"),
    _shared("workmail", "inbound-smtp.us-east-1.amazonaws.com inbound-smtp.us-west-2.amazonaws.com "
        "inbound-smtp.eu-west-1.amazonaws.com", "Amazon WorkMail, and SES receiving"),
    _shared("rackspace", "emailsrvr.com"),
    _shared("godaddy", "secureserver.net"),
    _shared("aliyun", "mxhichina.com aliyun.com"),
    # Mailbox providers.
    _shared("fastmail", "messagingengine.com"),
    _shared("protonmail", "protonmail.ch"),
    _shared("yandex", "yandex.ru yandex.net", "often accepts all: the random probe tells"),
    _shared("mailru", "mail.ru", "often accepts all: the random probe tells"),
    _shared("gmx", "gmx.net web.de mail.com", "refuses sources without a proper reverse name"),
    _shared("seznam", "seznam.cz"),
    _shared("libero", "libero.it iol.it virgilio.it"),
    _watchful("tonline", "t-online.de", "refuses unknown sources at connect, 554"),
    _watchful("orange", "orange.fr wanadoo.fr", "few sessions a source"),
    _watchful("free", "free.fr proxad.net", "greylists unknown sources"),
    _watchful("sfr", "sfr.fr sfr.net"),
    _watchful("laposte", "laposte.net"),
    _watchful("comcast", "comcast.net"),
    _watchful("cox", "cox.net"),
    _watchful("charter", "charter.net rr.com"),
    _watchful("att", "prodigy.net att.net"),
    _watchful("qq", "qq.com", "qq.com and Tencent Exmail"),
    _watchful("netease", "netease.com 163.com 126.com yeah.net"),
    _watchful("naver", "naver.com worksmobile.com"),
    _watchful("daum", "hanmail.net daum.net kakao.com"),
    _watchful("kddi", "ezweb.ne.jp au.com dion.ne.jp auone-net.jp"),
    _watchful("docomo", "docomo.ne.jp"),
    _watchful("softbank", "softbank.ne.jp softbank.jp"),
)
# fmt: on
"""A tenant's accept-all or blanket refusal is not in here: the random probe finds it, domain by domain."""


class PublicSuffixes(PublicSuffixList):
    """The list, with a short way for the host names of mail, which are many below few suffixes.

    By itself the library encodes its ASCII rules, too, all but a few: that is half of the time it takes.
    """

    def __init__(self) -> None:
        rules = _suffix_rules()
        other = [rule for rule in rules if not rule.isascii()]
        encoded = ["!" * rule.startswith("!") + encode_idn(rule.lstrip("!")) for rule in other]
        super().__init__([*rules, *encoded], accept_encoded_idn=False)
        self._suffix_above = lru_cache(maxsize=8192)(self.publicsuffix)

    def suffix_of(self, name: str) -> str:
        """Return the public suffix of a name in lower case without the final dot, "" for what is no name.

        It is that of the name above, unless a rule is about this very name: to look that up takes a quarter
        of the time.
        """
        label, _, above = name.partition(".")
        if label and above and self._publicsuffix.isdisjoint((name, f"!{name}", f"*.{name}", f"*.{above}")):
            return self._suffix_above(above) or ""
        return self.publicsuffix(name) or ""

    def registrable_of(self, name: str) -> str:
        """Return the registrable domain of such a name, "" for a public suffix."""
        suffix = self.suffix_of(name)
        label = name.removesuffix(f".{suffix}").rpartition(".")[2] if suffix not in {"", name} else ""
        return f"{label}.{suffix}" if label else ""


@cache
def public_suffixes() -> PublicSuffixes:
    """Return the list as it came with the package, parsed once per process; nobody may change it."""
    return PublicSuffixes()


@cache
def top_level_domains() -> frozenset[str]:
    """Return the top-level domains of that list, in ASCII; read in a third of the time it takes whole."""
    names = {rule.rpartition(".")[2] for rule in _suffix_rules()}
    return frozenset(name if name.isascii() else f"xn--{name.encode('punycode').decode()}" for name in names)


def _suffix_rules() -> list[str]:
    lines = Path(PSLFILE).read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("//")]


@dataclass(frozen=True, slots=True)
class _Check:
    """What a field of the overrides file must hold."""

    wanted: str
    accepts: Callable[[Any], bool]


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word for word in value)


_LONGEST_KEY: Final = 253  # of a domain, which a provider outside the table is
_SHARED_KEYS: Final = frozenset({"*", "~"})
"""What stands where a key does and is no provider's (mailsift.storage.sql.chunks, .throttles)."""


def as_key(name: str) -> str:
    """Return a throttle key as it is written down, "" where the name cannot be one."""
    key = name.strip().lower().rstrip(".")
    return key if len(key) <= _LONGEST_KEY and key.isprintable() and not set(key) & set(" :") else ""


_KEY = _Check(
    "a word without blanks and colons",
    lambda value: value == "" or (isinstance(value, str) and as_key(value) not in {"", *_SHARED_KEYS}),
)
_WORD = _Check("a word", lambda value: isinstance(value, str))
_COUNT = _Check("a whole number from 1 to 100000", lambda value: type(value) is int and 1 <= value <= 100_000)
_LIMITS = {
    "sessions": _COUNT,
    "rate": _Check(
        "a number above 0, at most 1000000", lambda value: type(value) in {int, float} and 0 < value <= 1e6
    ),
    "burst": _COUNT,
    "recipients": _COUNT,
    "ceiling": _Check(
        "0, or a number up to 1000000", lambda value: type(value) in {int, float} and 0 <= value <= 1e6
    ),
}
_NUMBER = _Check("a whole number up to 100000", lambda value: type(value) is int and 0 <= value <= 100_000)
_FLAG = _Check("true or false", lambda value: isinstance(value, bool))
_FIELDS = {
    "key": _KEY,
    "suffixes": _Check("a list of words", _is_words),
    "informative": _FLAG,
    "edge": _FLAG,
    **_LIMITS,
    "harvest": _NUMBER,
    "careful": _NUMBER,
    "note": _WORD,
}


class Providers:
    """The provider table with the operator's changes."""

    def __init__(self, rows: Sequence[Provider] = PROVIDERS, default: Provider = DEFAULT) -> None:
        """Build the table; of two rows with the same key or suffix the later one wins."""
        self._default = default
        self._rows = {row.key: row for row in rows}
        self._keys = {suffix: row.key for row in self._rows.values() for suffix in row.suffixes}

    @classmethod
    def load(cls, overrides: Path | None = None, *, ramp: bool = True) -> Providers:
        """Build the table from the built-in rows and an overrides file.

        `[[provider]]` changes the named fields of the row with that `key` (`default` is the row for everybody
        else) or adds a row; `[limits]` then sets `sessions`, `rate`, `burst`, `recipients`, `ceiling` of all
        rows; these are taken at their word, and nobody is asked with care beside them.

        Args:
            overrides: the file.
            ramp: sources begin with care and may earn more than the rates; without it no row has a ceiling.

        Raises:
            MailsiftError: `bad_overrides`.
        """
        changes = read_overrides(overrides)
        limits = _checked(changes.limits, known=_LIMITS, where="[limits]")
        if not ramp:
            limits["ceiling"] = 0.0
        if limits:
            limits["careful"] = 0
        rows = {row.key: row for row in (DEFAULT, *PROVIDERS)}
        for raw in changes.providers:
            named = _checked(raw, known=_FIELDS, where="[[provider]]")
            if not named.get("key"):
                raise bad_overrides("[[provider]] needs a `key`")
            fresh = replace(rows[DEFAULT.key], suffixes=(), careful=0, note="")
            rows[named["key"]] = replace(rows.pop(named["key"], fresh), **named)  # last, so its suffixes win
        default = replace(rows.pop(DEFAULT.key), **limits)
        return cls([replace(row, **limits) for row in rows.values()], default)

    def key_of(self, mx_names: Sequence[str]) -> str:
        """Return the throttle key of exchangers given in order of preference, "" when there are none.

        The best exchanger decides: the provider with the longest matching suffix (whole labels), else the
        registrable domain of the host, else (a public suffix, an IP literal) the host itself.
        """
        if not mx_names:
            return ""
        host = mx_names[0].rstrip(".").lower()
        suffix = host
        while suffix:
            key = self._keys.get(suffix)
            if key is not None:
                return key
            suffix = suffix.partition(".")[2]
        return host if host.rpartition(".")[2].isdigit() else self.operator_of(host)

    def operator_of(self, host: str) -> str:
        """Return the registrable domain of a host name, else the name itself."""
        return public_suffixes().registrable_of(host) or host

    def knows(self, key: str) -> bool:
        """Tell whether the key is in the table: any other is the domain of somebody's mail host."""
        return key in self._rows

    def nearest(self, name: str) -> str:
        """Return the key of the table that is written nearly like a name, "" when there is none."""
        return next(iter(get_close_matches(name, self._rows, 1)), "")

    def row(self, key: str) -> Provider:
        """Return the provider's row; for keys outside the table the default row under that key."""
        return self._rows.get(key) or replace(self._default, key=key)


def _checked(raw: Mapping[str, Any], *, known: Mapping[str, _Check], where: str) -> dict[str, Any]:
    """Return the table when every value is what its name asks for."""
    for name, value in raw.items():
        if name not in known:
            raise bad_overrides(f"{where} does not know `{name}`; it knows {', '.join(known)}")
        if not known[name].accepts(value):
            raise bad_overrides(f"{where} `{name}` must be {known[name].wanted}")
    checked = dict(raw)
    if "suffixes" in raw:
        checked["suffixes"] = tuple(suffix.lower().strip(".") for suffix in raw["suffixes"])
    if "key" in raw:
        checked["key"] = as_key(raw["key"])
    return checked


_BY_DOMAIN: Final[Mapping[str, str]] = {
    **{suffix: row.key for row in PROVIDERS for suffix in row.suffixes},
    "gmail.com": "google",
    **dict.fromkeys(("msn.com", "passport.com"), "outlook"),
    **dict.fromkeys(("ymail.com", "rocketmail.com", "aol.com", "verizon.net", "sky.com"), "yahoo"),
    **dict.fromkeys(("me.com", "mac.com"), "icloud"),
    **dict.fromkeys(("proton.me", "protonmail.com", "pm.me"), "protonmail"),
    **dict.fromkeys(("bk.ru", "list.ru", "inbox.ru"), "mailru"),
    "fastmail.com": "fastmail",
}
"""Domains of mailboxes at a provider: those in which its own servers are, and others."""

_BY_LABEL: Final = {
    **dict.fromkeys(("hotmail", "outlook", "live"), "outlook"),
    "yahoo": "yahoo",
    "gmx": "gmx",
    "yandex": "yandex",
}
"""Free-mail domains in many countries, by their first label."""


def provider_by_name(domain: str) -> str:
    """Return the provider that everybody knows a free-mail domain to be at, "" for other domains."""
    return _BY_DOMAIN.get(domain) or _BY_LABEL.get(domain.partition(".")[0], "")
