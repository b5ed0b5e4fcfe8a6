"""Wilson, Holm and two one-sided tests give what statsmodels 0.15.0 gives, to 1e-12; crossed seeds and scenarios what its REML finds.

Why it is no dependency: docs/statistics.md. The expected numbers are its answers, written down once: `proportion_confint(share * n, n,
method="wilson")`, `multipletests(p, method="holm")`, `ttost_paired(x, zeros, -margin, margin)` and `mixedlm("y~1", groups=one, re_formula="0",
vc_formula={"seed": "0+C(seed)", "scenario": "0+C(scenario)"})`.
"""

from __future__ import annotations

import pytest

from rlver.components.scoring.crossed import Side, crossed, p_equivalent
from rlver.components.scoring.statistics import holm, p_differs, paired_scores, wilson

DIFFERENCES = (1.5, -2.0, 3.0, 4.5, 0.5, -1.0, 2.5, 6.0, -0.5, 1.0)


@pytest.mark.parametrize(
    ("share", "n", "low", "high"),
    [
        (0.0, 6, 0.0, 0.39033428790216546),
        (1.0, 6, 0.6096657120978346, 1.0),
        (0.33, 11.2, 0.13185488920855662, 0.6149781776239683),
        (0.5, 30, 0.3315412564053376, 0.6684587435946624),
        (0.777, 300, 0.7265625692029515, 0.82043322473865),
        (0.01, 88.7, 0.001622976759370575, 0.05905748897193469),
    ],
)
def test_wilson_s_interval(share: float, n: float, low: float, high: float) -> None:
    assert wilson(share, n) == pytest.approx((low, high), abs=1e-12)


def test_holm_s_adjustment_with_ties() -> None:
    adjusted = holm(dict(zip("abcdef", (0.0312, 0.0004, 0.62, 0.011, 0.011, 0.2), strict=True)))
    assert list(map(adjusted.__getitem__, "abcdef")) == pytest.approx([0.0936, 0.0024, 0.62, 0.055, 0.055, 0.4], abs=1e-12)


@pytest.mark.parametrize(("margin", "p"), [(5.0, 0.0009052274447243771), (3.0, 0.049887670841353704)])
def test_two_one_sided_tests(margin: float, p: float) -> None:
    assert p_equivalent(paired_scores(DIFFERENCES), margin) == pytest.approx(p, abs=1e-12)


def test_student_s_paired_test() -> None:
    assert p_differs(paired_scores(DIFFERENCES)) == pytest.approx(0.08150699307057158, abs=1e-12)


def test_the_error_of_crossed_seeds_and_scenarios() -> None:
    table = {
        7: (61.0, 48.5, 70.25, 55.0, 66.5, 52.0),
        8: (68.5, 50.0, 79.0, 58.25, 71.0, 61.5),
        9: (57.25, 47.0, 66.5, 49.0, 64.0, 50.5),
        10: (63.0, 55.5, 71.0, 60.0, 65.25, 54.0),
    }
    by_seed = {seed: {str(scenario): [value] for scenario, value in enumerate(row)} for seed, row in table.items()}
    found = crossed([Side(1, by_seed)], {})
    assert found is not None and found.test is not None
    assert found.value == 60.1875 and found.test.standard_error == pytest.approx(3.801697, abs=1e-4)
