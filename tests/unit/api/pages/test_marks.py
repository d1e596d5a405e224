"""What pages show of texts that would turn what stands behind them round."""

from __future__ import annotations

from mailsift.api.pages.page import load_theme


def test_a_mark_that_turns_what_follows_is_shown_as_one() -> None:
    page = load_theme().templates.from_string(
        "{% macro m(x) %}<b>{{ x }}</b>{% endmacro %}<i title='{{ name }}'>{{ m(name) }}</i>"
    )
    assert page.render(name="a\u202egpj.<b>\u2069") == (
        "<i title='a\ufffdgpj.&lt;b&gt;\ufffd'><b>a\ufffdgpj.&lt;b&gt;\ufffd</b></i>"
    )
    assert page.render(name="\u05d0\u200fé") == "<i title='\u05d0\u200fé'><b>\u05d0\u200fé</b></i>"
