"""The usual learning rate falls with the size of the model, and what is above it is told."""

from __future__ import annotations

import pytest

from rlver.components.training.rates import usual_rate, warning_of_rate


def test_the_larger_the_model_the_lower_the_rate_and_adapters_learn_ten_times_as_fast() -> None:
    sizes = [10**6, 135 * 10**6, 500 * 10**6, 1_540 * 10**6, 7_600 * 10**6]
    rates = [usual_rate(size, 0) for size in sizes]
    assert rates == [3e-3, 3e-4, 1e-4, 2e-5, 1e-5]
    assert [usual_rate(size, 32) for size in sizes] == pytest.approx([10 * rate for rate in rates])


def test_only_a_rate_above_the_usual_one_is_warned_of() -> None:
    assert warning_of_rate(3e-3, 10**6, 0) is None
    assert warning_of_rate(8e-4, 1_540 * 10**6, 0) == (
        "train.learning_rate 0.0008 is for a smaller model: of 1.54 billion weights at most 2e-05 is usual; set it in the variant's overlay"
    )
    assert "of 135.0 million weights at most 0.003" in str(warning_of_rate(4e-3, 135 * 10**6, 8))
