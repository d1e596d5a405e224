"""Who greets by one name for unrelated providers is none of them; a hoster's name proves nothing."""

from __future__ import annotations

import pytest

from mailsift.pipeline.probe.port25 import Greeting, InterceptionDetector, greeting_name
from mailsift.pipeline.providers import Providers

CASES = {
    "one name for Google and GMX": ({"google": "fw.corp.test", "gmx": "fw.corp.test"}, True),
    "a masked banner": ({"google": "********", "icloud": "********"}, True),
    "localhost, three times": ({"google": "localhost", "gmx": "localhost", "yahoo": "localhost"}, True),
    "a bare word, twice": ({"netease": "esmtp", "qq": "esmtp"}, False),
    "as they are": ({"google": "mx.google.com", "gmx": "gmx.net"}, False),
    "two of Microsoft": ({"outlook": "a.outlook.com", "microsoft365": "a.outlook.com"}, False),
    "a hoster's customers": ({"one.test": "mx.hoster.test", "two.test": "mx.hoster.test"}, False),
    "a gateway and who is behind it": ({"mimecast": "gw.test", "corp.test": "gw.test"}, False),
    "nothing said": ({"google": "", "gmx": ""}, False),
}


@pytest.mark.parametrize(("names", "intercepted"), CASES.values(), ids=CASES)
def test_a_name(names: dict[str, str], *, intercepted: bool) -> None:
    detector = InterceptionDetector(Providers())
    for n, (provider, name) in enumerate(names.items()):
        detector.record_greeting("", provider, Greeting(f"192.0.2.{n}", name))
    assert detector.is_intercepted("", next(iter(names.values()))) is intercepted
    assert not detector.is_intercepted("another source", "fw.corp.test")


def test_one_machine_that_is_everybody_in_a_test_network_is_believed() -> None:
    detector = InterceptionDetector(Providers())
    for provider in ("google", "gmx"):
        detector.record_greeting("", provider, Greeting("127.0.0.1", "stub.test"))
    assert not detector.is_intercepted("", "stub.test")


def test_a_hosters_name_is_looked_at_once_in_five_minutes() -> None:
    detector, hoster = InterceptionDetector(Providers()), {"one.test": "192.0.2.1", "two.test": "192.0.2.2"}
    assert detector.is_suspect("", "mx.hoster.test", hoster, 0.0)
    detector.record_clear("", "mx.hoster.test", 0.0)
    assert not detector.is_suspect("", "mx.hoster.test", hoster, 299.0)
    assert detector.is_suspect("", "mx.hoster.test", hoster, 300.0)
    assert not detector.is_suspect("", "mx.one.test", {"one.test": "192.0.2.1"}, 0.0)


@pytest.mark.parametrize(
    ("banner", "name"),
    [
        ("220 MX.Google.com ESMTP x - gsmtp", "mx.google.com"),
        ("220 localhost ready", "localhost"),
        ("554 fw.corp.test No SMTP service here", "fw.corp.test"),
        ("554 Service unavailable; client host blocked", ""),
        ("554 Blocked. See our page", ""),
        ("421 192.0.2.7 is listed", ""),
        ("", ""),
    ],
)
def test_a_greeting_begins_with_a_name_and_a_refusal_need_not(banner: str, name: str) -> None:
    assert greeting_name(banner) == name
