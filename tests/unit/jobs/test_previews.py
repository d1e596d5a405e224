"""What a sample says of the whole list."""

from __future__ import annotations

import pytest

from mailsift.jobs.results.parts import estimate


def test_the_interval_is_wilsons() -> None:
    share = estimate({"valid": 10, "risky": 90}, population=10**9)["valid"]
    # Brown, Cai, DasGupta, "Interval Estimation for a Binomial Proportion": 10 of 100 at 95 %
    assert (share.value, share.low, share.high) == pytest.approx((0.1, 0.05523, 0.17437), abs=1e-4)


def test_a_sample_without_a_case_does_not_prove_there_is_none() -> None:
    share = estimate({"valid": 0, "risky": 40}, population=10**9)["valid"]
    assert share.low == 0
    assert share.high == pytest.approx(0.0876, abs=1e-3)


def test_the_whole_list_as_its_own_sample_leaves_no_doubt() -> None:
    share = estimate({"valid": 3, "invalid": 1}, population=4)["valid"]
    assert (share.low, share.high) == pytest.approx((0.75, 0.75))
    assert estimate({}, population=0) == {}


@pytest.mark.parametrize("n", [347, 838, 1512])
def test_all_of_many_may_be_all_there_are(n: int) -> None:
    assert estimate({"valid": n}, population=10**9)["valid"].high == 1
    assert estimate({"valid": 0, "risky": n}, population=10**9)["valid"].low == 0
