"""Which provider the well-known free-mail domains are at: known before DNS is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_BY_DOMAIN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("gmail.com", "googlemail.com"), "google"),
    **dict.fromkeys(("msn.com", "passport.com"), "outlook"),
    **dict.fromkeys(("ymail.com", "rocketmail.com", "aol.com", "verizon.net", "sky.com"), "yahoo"),
    **dict.fromkeys(("icloud.com", "me.com", "mac.com"), "icloud"),
    **dict.fromkeys(("web.de", "mail.com"), "gmx"),
    **dict.fromkeys(("proton.me", "protonmail.com", "pm.me"), "protonmail"),
    **dict.fromkeys(("163.com", "126.com", "yeah.net"), "netease"),
    **dict.fromkeys(("mail.ru", "bk.ru", "list.ru", "inbox.ru"), "mailru"),
    **dict.fromkeys(("orange.fr", "wanadoo.fr"), "orange"),
    **dict.fromkeys(("libero.it", "virgilio.it", "iol.it"), "libero"),
    "yahoo.co.jp": "yahoo_japan",
    "qq.com": "qq",
    "naver.com": "naver",
    "free.fr": "free",
    "sfr.fr": "sfr",
    "laposte.net": "laposte",
    "t-online.de": "tonline",
    "comcast.net": "comcast",
    "cox.net": "cox",
    "seznam.cz": "seznam",
    "fastmail.com": "fastmail",
}
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
