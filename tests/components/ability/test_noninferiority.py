from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlver.components.ability.noninferiority import LossOutcome, NotComparable, compare_general, holm, non_inferiority, overall
from rlver.components.scoring.statistics import Paired, paired_shares


def verdict(difference: float, standard_error: float, margin: float = 0.05, n: int = 500):
    return non_inferiority({"t": Paired(difference, standard_error, n)}, {"t": margin})["t"]


@pytest.mark.parametrize(
    ("difference", "standard_error", "outcome"),
    [
        (0.00, 0.02, LossOutcome.PASS),  # lower bound 0 - 1.645 x 0.02 = -0.033, above -0.05
        (-0.02, 0.02, LossOutcome.INCONCLUSIVE),  # -0.053 .. +0.013: both sides of -0.05 possible
        (-0.06, 0.02, LossOutcome.INCONCLUSIVE),  # seen below the margin, but the upper bound is -0.027
        (-0.10, 0.02, LossOutcome.FAIL),  # upper bound -0.067, below -0.05
        (0.30, 0.30, LossOutcome.INCONCLUSIVE),  # far better, but nothing is known: lower bound -0.19
        (0.00, 0.00, LossOutcome.PASS),
        (-0.06, 0.00, LossOutcome.FAIL),
        (-0.05, 0.00, LossOutcome.INCONCLUSIVE),  # exactly at the margin
    ],
)
def test_three_outcomes(difference: float, standard_error: float, outcome: LossOutcome):
    assert verdict(difference, standard_error).outcome is outcome


def test_bounds_are_one_sided():
    result = verdict(-0.02, 0.02)
    assert result.lower == pytest.approx(-0.02 - 1.645 * 0.02, abs=1e-4)
    assert result.upper == pytest.approx(-0.02 + 1.645 * 0.02, abs=1e-4)


def test_a_handful_of_items_proves_nothing_even_when_all_are_equal():
    assert verdict(0.0, 0.0, n=29).outcome is LossOutcome.INCONCLUSIVE
    assert verdict(-0.5, 0.0, n=29).outcome is LossOutcome.INCONCLUSIVE


def test_holm_multiplies_the_smallest_most_and_stays_monotone():
    # sorted .01 x 3, .02 x 2, .03 x 1 -> .03, .04, max(.04, .03)
    assert holm({"a": 0.03, "b": 0.01, "c": 0.02}) == pytest.approx({"a": 0.04, "b": 0.03, "c": 0.04})
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


@pytest.mark.long
@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_makes_a_p_value_smaller_nor_changes_the_order(p_values: dict[str, float]):
    adjusted = holm(p_values)
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)
    order = sorted(p_values, key=lambda name: (p_values[name], name))
    assert [adjusted[name] for name in order] == sorted(adjusted.values())


def test_a_second_task_raises_the_bar_of_the_first():
    borderline = Paired(-0.015, 0.02, 500)  # z = 1.75, p = .040
    assert non_inferiority({"a": borderline}, {"a": 0.05})["a"].outcome is LossOutcome.PASS
    both = non_inferiority({"a": borderline, "b": Paired(-0.015, 0.02, 500)}, {"a": 0.05, "b": 0.05})
    assert {result.outcome for result in both.values()} == {LossOutcome.INCONCLUSIVE}
    assert both["a"].p_not_worse == pytest.approx(0.0801, abs=1e-3)


def test_a_second_task_raises_the_bar_of_a_loss_too():
    borderline = Paired(-0.085, 0.02, 500)  # z = -1.75 below the margin, p = .040
    assert non_inferiority({"a": borderline}, {"a": 0.05})["a"].outcome is LossOutcome.FAIL
    both = non_inferiority({"a": borderline, "b": borderline}, {"a": 0.05, "b": 0.05})
    assert {one.outcome for one in both.values()} == {LossOutcome.INCONCLUSIVE}
    assert both["a"].p_worse == pytest.approx(2 * 0.040, abs=2e-3)


def general(scores: list[float], **task: object) -> dict[str, Any]:
    items = [{"doc": str(number), "prompt": "q", "score": score} for number, score in enumerate(scores)]
    return {"tasks": {"t": {"metric": "acc", "higher_is_better": True, "value": sum(scores) / len(scores), "items": items, **task}}}


def test_right_and_wrong_items_that_never_flip_still_leave_a_doubt():
    same = compare_general(general([1.0] * 40), general([1.0] * 40), margin=0.05)["tasks"]["t"]
    assert -0.05 < same["lower95"] < -0.01, "as shares: 40 equal pairs do not show that all are"
    graded = compare_general(general([0.5] * 40), general([0.5] * 40), margin=0.05)["tasks"]["t"]
    assert graded["lower95"] == 0


def test_one_metric_in_two_directions_is_not_compared():
    with pytest.raises(NotComparable, match="base has metric acc, tuned has acc"):
        compare_general(general([1.0] * 40), general([1.0] * 40, higher_is_better=False), margin=0.05)


def test_one_task_without_evidence_leaves_the_whole_undecided():
    assert overall(["pass", "inconclusive"]) is LossOutcome.INCONCLUSIVE
    assert overall(["inconclusive", "fail", "pass"]) is LossOutcome.FAIL and overall(["pass"]) is LossOutcome.PASS


@pytest.mark.parametrize("margin", [0.0, -0.1])
def test_a_margin_must_be_positive(margin: float):
    with pytest.raises(ValueError, match="margin must be positive"):
        verdict(0.0, 0.01, margin=margin)


def test_a_policy_exactly_at_the_margin_passes_about_one_time_in_twenty():
    random = np.random.default_rng(3)
    passed = 0
    for _ in range(1000):
        # 250 items: 5 points more losses than wins, the others stay
        differences = random.choice([1.0, 0.0, -1.0], p=[0.05, 0.85, 0.10], size=250)
        passed += non_inferiority({"t": paired_shares(list(differences))}, {"t": 0.05})["t"].outcome is LossOutcome.PASS
    assert 0.02 <= passed / 1000 <= 0.08
