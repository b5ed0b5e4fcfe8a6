"""The arithmetic of the findings, on numbers that can be checked by hand."""

from __future__ import annotations

import math

import pytest

from rlver.components.scoring.statistics import Estimated, Interval
from rlver.tasks.studies.paper.contrasts import FindingOutcome, FindingRow, Term, fall, peak, persona_contrast, seed_contrast


def test_a_difference_is_taken_persona_by_persona():
    """a: 60 - 40 = 20, b: 80 - 50 = 30; mean 25 and standard error 5, which Student's t of one degree multiplies by 12.706."""
    contrast = persona_contrast([Term(1, {7: {"a": [60], "b": [80]}}), Term(-1, {7: {"a": [40], "b": [50]}})], 2000, 7)
    assert contrast is not None and contrast.seeds == (7,)
    assert contrast.estimate.value == 25 and contrast.estimate.n == 2
    assert contrast.estimate.ci95 == pytest.approx((25 - 12.706 * 5, 25 + 12.706 * 5), abs=0.01)


def test_repeats_are_averaged_before_seeds_and_seeds_before_personas():
    """Seed 7: a is (50 + 70) / 2 - 40 = 20; seed 8: 100 - 40 = 60; a is 40, with the same 40 for b."""
    higher = Term(1, {7: {"a": [50, 70], "b": [60]}, 8: {"a": [100], "b": [60]}})
    lower = Term(-1, {7: {"a": [40], "b": [20]}, 8: {"a": [40], "b": [20]}})
    contrast = persona_contrast([higher, lower], 500, 7)
    assert contrast is not None and contrast.seeds == (7, 8)
    assert contrast.estimate.value == 40 and tuple(contrast.estimate.ci95) == (40, 40)


def test_only_shared_seeds_and_personas_count():
    higher = Term(1, {7: {"a": [60], "b": [80], "c": [0]}, 8: {"a": [0], "b": [0]}})
    contrast = persona_contrast([higher, Term(-1, {7: {"a": [40], "b": [50]}, 9: {"a": [100]}})], 500, 7)
    assert contrast is not None and (contrast.estimate.value, contrast.estimate.n, contrast.seeds) == (25, 2, (7,))
    assert persona_contrast([Term(1, {8: {"a": [60]}}), Term(-1, {9: {"a": [40]}})], 500, 7) is None
    assert persona_contrast([Term(1, {7: {"a": [60]}}), Term(-1, {7: {"b": [40]}})], 500, 7) is None


def test_a_difference_of_differences_subtracts_the_other_loss():
    """Direct loses 62 - 20 = 42, thinking 79 - 66 = 13: 29 more, as in Table 3 of the paper."""
    weighted = ((1, 62), (-1, 20), (-1, 79), (1, 66))
    terms = [Term(weight, {7: {name: [value] for name in "ab"}}) for weight, value in weighted]
    contrast = persona_contrast(terms, 500, 7)
    assert contrast is not None and contrast.estimate.value == 29


def test_a_single_persona_says_nothing_about_the_spread():
    contrast = persona_contrast([Term(1, {7: {"a": [60]}}), Term(-1, {7: {"a": [40]}})], 500, 7)
    assert contrast is not None and tuple(contrast.estimate.ci95) == (-100, 100)


def test_seeds_are_paired_with_students_interval():
    """Differences 10, 12, 14: mean 12, standard error 2 / sqrt 3, t with 2 degrees 4.303."""
    contrast = seed_contrast({7: 80, 8: 81, 9: 82}, {7: 70, 8: 69, 9: 68, 10: 0})
    assert contrast is not None and contrast.seeds == (7, 8, 9) and contrast.estimate.value == 12
    half = 4.302653 * 2 / math.sqrt(3)
    assert contrast.estimate.ci95 == pytest.approx((12 - half, 12 + half))


def test_one_seed_is_an_estimate_that_decides_nothing():
    contrast = seed_contrast({7: 80}, {7: 20})
    assert contrast is not None and contrast.estimate.value == 60
    assert FindingRow("case", "user", contrast.estimate, contrast.seeds, ()).outcome == FindingOutcome.INCONCLUSIVE
    assert seed_contrast({7: 80}, {8: 20}) is None


def test_peak_and_fall_of_a_curve():
    assert (peak([20, 83.8, 70]), fall([20, 83.8, 70])) == (83.8, pytest.approx(-13.8))
    assert (peak([20, math.nan, 60]), fall([20, 60, math.nan])) == (60, 0)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.1, 9, FindingOutcome.REAPPEARS),
        (-9, -0.1, FindingOutcome.OPPOSITE),
        (-0.1, 9, FindingOutcome.INCONCLUSIVE),
        (0, 9, FindingOutcome.INCONCLUSIVE),
    ],
)
def test_the_interval_alone_decides(low: float, high: float, outcome: FindingOutcome):
    assert FindingRow("case", "user", Estimated((low + high) / 2, Interval(low, high), 100), (7,), ()).outcome == outcome


def test_without_an_estimate_it_was_not_measured():
    assert FindingRow("case", "user", None, (), ("ppo-direct-s7",)).outcome == FindingOutcome.NOT_MEASURED
