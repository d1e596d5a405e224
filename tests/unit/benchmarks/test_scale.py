"""The plan of a very long list: processors take time where no source does, and nonsense has no plan."""

from __future__ import annotations

import re

import pytest

from benchmarks.scale import MEASURED, Question, main, plan
from mailsift.pipeline.providers import Providers


def figures(question: Question) -> dict[str, float]:
    text = "\n".join(plan(question, MEASURED, Providers.load()))
    (days, pace), hours = (
        re.findall(r"the whole: ([\d,.]+) days, ([\d,]+) probes/s", text)[0],
        re.findall(r"([\d,.]+) core-hours, ([\d.]+) %", text),
    )
    return {
        "days": float(days.replace(",", "")),
        "pace": float(pace.replace(",", "")),
        "core_days": sum(float(found.replace(",", "")) for found, _ in hours) / 24,
        "share": sum(float(share) for _, share in hours),
    }


def test_where_no_source_is_waited_for_the_processors_say_how_long_it_takes() -> None:
    found = figures(Question(rows=1e9, cores=8))
    assert found["days"] == pytest.approx(found["core_days"] / 8, abs=0.06)
    assert found["share"] == pytest.approx(800, abs=1)
    assert found["pace"] == pytest.approx(8e8 / (found["core_days"] / 8 * 86_400), rel=0.01)


def test_where_a_provider_is_waited_for_the_sources_do() -> None:
    found = figures(Question(rows=1e9, mix={"google": 1.0}, sources=54))
    assert found["days"] == pytest.approx(8e8 / 2 / 86_400 / 54, abs=0.06)
    assert found["pace"] == 108


def test_no_addresses_take_no_time() -> None:
    found = figures(Question(rows=0, mix={"google": 1.0}))
    assert (found["days"], found["pace"], found["share"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--rows=-5", "--rows"),
        ("--rows=nan", "--rows"),
        ("--rows=inf", "--rows"),
        ("--known=1.5", "--known"),
        ("--known=nan", "--known"),
        ("--sources=0", "--sources"),
        ("--cores=0", "--cores"),
        ("--mix=google", "--mix"),
        ("--mix=google=much", "--mix"),
        ("--mix=google=-0.5", "--mix"),
        ("--mix=google=nan", "--mix"),
        ("--mix=google=0.6,outlook=0.5", "more than all"),
        ("--mix=gogle=0.5", "gogle"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line_and_has_no_plan(
    typed: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["scale", typed])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert expected in printed.err.splitlines()[-1]
