"""Whatever text surrounds it: an address, a key or a secret does not get into a log line."""

from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from mailsift.logs import ADDRESS, LONGEST_LINE, SECRET, redact, redacted

_LOCAL = st.text(
    "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789.!#$%&'*+/=?^_`{|}~-äöüß中文", min_size=3, max_size=40
)
_DOMAIN = st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){1,3}", fullmatch=True)
_AROUND = st.text(st.characters(codec="utf-8"), max_size=60)
_TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCDEFXYZ0123456789_-+/=", min_size=8, max_size=60)


@given(_LOCAL, _DOMAIN, _AROUND, _AROUND)
def test_an_address_in_any_text_is_replaced(local: str, domain: str, before: str, after: str) -> None:
    clean = redact(f"{before} <{local}@{domain}> {after}")
    assert f"{local}@" not in clean
    assert f"@{domain}" not in clean
    assert ADDRESS in clean


@given(_LOCAL, _DOMAIN)
def test_an_address_that_is_encoded_or_wide_or_quoted_is_replaced(local: str, domain: str) -> None:
    address = f"{local}@{domain}"
    once = quote(address, safe="")
    for written in (
        once,
        quote(once, safe=""),
        f"{local}＠{domain}",
        f"/path/{once}?x=1",
        f"mailto:{address}",
    ):
        assert domain not in redact(f"see {written} there").replace(ADDRESS, "")
    assert redact(f'to "john {local} doe"@{domain} it goes') == f"to {ADDRESS} it goes"


@given(st.sampled_from(["svc_key_", "whsec_", "SVC_KEY_"]), _TOKEN, _AROUND, _AROUND)
def test_a_key_or_a_secret_in_any_text_is_replaced(prefix: str, token: str, before: str, after: str) -> None:
    clean = redact(f"{before} {prefix}{token} {after}")
    assert f"{prefix}{token}" not in clean
    assert SECRET in clean


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _AROUND, st.binary()),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_AROUND, inner, max_size=3),
        max_leaves=8,
    ),
    _LOCAL,
    _DOMAIN,
)
def test_it_is_found_however_deep_it_lies_and_the_rest_stays_json(
    value: object, local: str, domain: str
) -> None:
    address = f"{local}@{domain}"
    clean = json.dumps(redacted({"a": [value, (address, {address: address.encode()})]}), ensure_ascii=False)
    assert f"@{domain}" not in clean


def test_what_is_harmless_stays_as_it_is() -> None:
    for text in (
        "job.step.done",
        "google",
        "http://127.0.0.1:8025/v1",
        "50 %",
        "req_5f2a9c0d8e7b41c3a6f0d912",
    ):
        assert redact(text) == text
    assert redacted({"chunk": 7, "ms": 1.5, "none": None, "ok": True}) == {
        "chunk": 7,
        "ms": 1.5,
        "none": None,
        "ok": True,
    }


def test_the_password_of_a_url_goes_with_its_at_sign() -> None:
    assert redact("cannot reach redis://user:pass@host:6379/0 now") == f"cannot reach {ADDRESS} now"


def test_an_exception_among_the_fields_is_its_class_only() -> None:
    assert redacted(ValueError("Jane Doe")) == "ValueError"


def test_a_text_without_end_is_cut_after_it_is_read() -> None:
    clean = redact("x" * LONGEST_LINE + "jane@example.com")
    assert clean == ADDRESS
    assert len(redact("word " * 10_000)) == LONGEST_LINE + 3


def test_a_hostile_text_costs_no_time() -> None:
    assert redact('"' * 200_000 + "@" * 100_000 + "%25" * 100_000)
