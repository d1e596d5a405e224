"""A list stops at a provider that knows too few of it; domains that opted out, and those below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Answer
from mailsift.pipeline.opt_outs import OptOuts, read_opt_outs
from mailsift.pipeline.throttle import NO_STOP, AskedCounts, StopRule, ThrottleKey, count_asked

HERE = ThrottleKey("google", "192.0.2.1")


@pytest.mark.parametrize(
    ("seen", "stops"),
    [
        (AskedCounts(200, 60), True),
        (AskedCounts(200, 59), False),
        (AskedCounts(199, 199), False),  # too few to say
        (AskedCounts(10_000, 2_999), False),
    ],
)
def test_it_stops_at_the_share_of_enough(seen: AskedCounts, stops: bool) -> None:
    assert StopRule().stops(seen) is stops
    assert not NO_STOP.stops(seen)


def test_only_what_was_definite_counts() -> None:
    answers = [Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL]
    vague = set(Answer).difference(answers)
    assert count_asked((HERE, answer) for answer in [*answers, *vague]) == {HERE: AskedCounts(4, 2)}
    assert count_asked((HERE, answer) for answer in vague) == {}


@pytest.mark.parametrize(
    ("domain", "covered"),
    [
        ("shy.example", True),
        ("mail.shy.example", True),
        ("a.b.shy.example", True),
        ("notshy.example", False),
        ("shy.example.org", False),
        ("example", False),
    ],
)
def test_an_opt_out_covers_what_is_below(domain: str, covered: bool) -> None:
    asked = OptOuts(["shy.example"])
    assert asked.covers(domain) is covered
    asked.learn(["other.example"])
    assert asked.covers(domain) is covered
    assert asked.covers("www.other.example")
    asked.learn([])
    assert not asked.covers("www.other.example")


def test_opt_outs_are_a_domain_a_line_as_editors_write_them(tmp_path: Path) -> None:
    file = tmp_path / "opt-outs"
    file.write_bytes(
        "\ufeffExample.com.  # asked us on 3 May\r\n\r\n# nobody yet\r\nbücher.example\r\n".encode()
    )
    assert read_opt_outs(file) == ["example.com", "xn--bcher-kva.example"]


@pytest.mark.parametrize("content", [b"example.com\nno domain\n", b"b\xfccher.example\n", None])
def test_opt_outs_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "opt-outs"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(MailsiftError, match=r"line|read") as refused:
        read_opt_outs(file)
    assert refused.value.code == "bad_opt_outs"
