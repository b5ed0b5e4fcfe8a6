"""What is read off learning curves, and how findings are judged, on numbers that can be checked by hand."""

from __future__ import annotations

import math

import pytest

from rlver.tasks.studies.paper.contrasts import height, late_height, late_rise, seed_contrast


def test_seeds_are_paired_with_students_t():
    """Differences 10, 12, 14: mean 12, standard error 2 / sqrt 3, 2 degrees of freedom."""
    contrast = seed_contrast({7: 80, 8: 81, 9: 82}, {7: 70, 8: 69, 9: 68, 10: 0})
    assert contrast is not None and contrast.seeds == 3 and contrast.value == 12 and contrast.test is not None
    assert (contrast.test.standard_error, contrast.test.freedom) == (pytest.approx(2 / math.sqrt(3)), 2)


def test_one_seed_is_an_estimate_without_a_test():
    contrast = seed_contrast({7: 80}, {7: 20})
    assert contrast is not None and contrast.value == 60 and contrast.test is None
    assert seed_contrast({7: 80}, {8: 20}) is None


def test_a_straight_curve_has_the_height_of_its_middle():
    """From 20 to 80: half way to the end it is 65 on average; the last quarter is 15 above the one before. A missing point counts nowhere."""
    curve = ([0, 15, 30, 45, 60, 75], [20, 32, math.nan, 56, 68, 80])
    assert late_height(curve) == pytest.approx(65) and late_rise(curve) == pytest.approx(15)


def test_one_noisy_point_moves_the_height_less_than_a_peak():
    steps, flat = [0, 15, 30, 45, 60, 75], [60.0] * 6
    spiked = [*flat[:4], 80.0, 60.0]
    assert late_height((steps, spiked)) - late_height((steps, flat)) < 10, "a peak would be 20 higher"


def test_a_curve_of_one_point_is_refused():
    with pytest.raises(ValueError, match="needs 2 measured points, got 1"):
        height(([0, 15], [20, math.nan]), 0, 1)
