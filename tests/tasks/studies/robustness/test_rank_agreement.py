"""Rank correlations by hand, ties and all, and intervals that behave."""

from __future__ import annotations

import random

import pytest

from rlver.components.scoring.statistics import Interval
from rlver.components.scoring.units import Sampling
from rlver.tasks.studies.robustness.robustness import over_dialogues, over_policies

SAMPLES = 400


def pairs(first: list[float], second: list[float]) -> dict[str, list[tuple[float, float]]]:
    return {f"p{number:03}": [pair] for number, pair in enumerate(zip(first, second, strict=True))}


@pytest.mark.parametrize(
    ("first", "second", "rho"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 90], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4], [2, 1, 4, 3], 0.6),  # 1 - 6 * 4 / (4 * 15)
        ([5, 5, 7, 9], [1, 2, 3, 4], 0.948683),  # ranks 1.5 1.5 3 4 against 1 2 3 4: 4.5 / sqrt(4.5 * 5)
        ([1, 2, 3, 4, 5], [7, 7, 7, 7, 8], 0.707107),  # ranks 2.5 2.5 2.5 2.5 5: 5 / sqrt(10 * 5)
    ],
)
def test_spearman_is_the_correlation_of_mid_ranks(first: list[float], second: list[float], rho: float) -> None:
    agreement = over_dialogues(pairs(first, second), Sampling(SAMPLES, 1))
    assert agreement is not None and agreement.n == len(first)
    assert agreement.value == pytest.approx(rho, abs=1e-6)


def test_where_one_side_says_the_same_of_all_there_is_no_order() -> None:
    assert over_dialogues(pairs([3, 3, 3], [1, 2, 3]), Sampling(SAMPLES, 1)) is None
    with pytest.raises(ValueError, match="no dialogue that both"):
        over_dialogues({}, Sampling(SAMPLES, 1))


def test_one_persona_tells_nothing_about_others() -> None:
    many = over_dialogues({"a": [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0)]}, Sampling(SAMPLES, 1))
    assert many is not None and many.value == pytest.approx(0.5) and many.ci95 == Interval(-1.0, 1.0)
    first = {"x": {"a": 1.0}, "y": {"a": 2.0}, "z": {"a": 3.0}}
    for found in over_policies(first, {"x": {"a": 1.0}, "y": {"a": 3.0}, "z": {"a": 2.0}}, Sampling(SAMPLES, 1)):
        assert found is not None and found.ci95 == Interval(-1.0, 1.0)


def test_repeats_of_a_persona_are_resampled_together() -> None:
    """Ten copies of three personas know no more than three personas: the interval stays as wide."""
    once = {"a": [(1.0, 2.0)], "b": [(2.0, 1.0)], "c": [(3.0, 3.0)]}
    tenfold = {name: of * 10 for name, of in once.items()}
    one, ten = over_dialogues(once, Sampling(SAMPLES, 1)), over_dialogues(tenfold, Sampling(SAMPLES, 1))
    assert one is not None and ten is not None and ten.n == 30
    assert ten.value == pytest.approx(one.value) and ten.ci95 == pytest.approx(one.ci95)


def test_intervals_cover_no_agreement_where_there_is_none_and_little_else_where_there_is_much() -> None:
    """200 experiments of 40 unrelated pairs: 0 lies inside about 95% of the intervals."""
    draw = random.Random(3)
    inside = 0
    for _ in range(200):
        agreement = over_dialogues(pairs([draw.random() for _ in range(40)], [draw.random() for _ in range(40)]), Sampling(200, 1))
        assert agreement is not None
        inside += agreement.ci95.low <= 0 <= agreement.ci95.high
    assert 0.90 <= inside / 200 <= 0.99  # 3 standard errors of 200 draws
    truth = [draw.random() for _ in range(60)]
    near = over_dialogues(pairs(truth, [value + draw.gauss(0, 0.05) for value in truth]), Sampling(SAMPLES, 1))
    assert near is not None and near.ci95.low > 0.9 and near.ci95.high <= 1


def test_policies_are_ordered_by_their_means() -> None:
    """Means 1 2 3 4 against 2 1 4 3 (every persona alike): rho 0.6, and 4 of 6 pairs in the same order, so tau (4 - 2) / 6."""
    people = [f"p{number}" for number in range(8)]
    first = {name: dict.fromkeys(people, float(mean)) for name, mean in zip("abcd", (1, 2, 3, 4), strict=True)}
    second = {name: dict.fromkeys(people, float(mean)) for name, mean in zip("abcd", (2, 1, 4, 3), strict=True)}
    rho, tau = over_policies(first, second, Sampling(SAMPLES, 1))
    assert rho is not None and tau is not None and (rho.n, tau.n) == (4, 4)
    assert rho.value == pytest.approx(0.6) and tau.value == pytest.approx(1 / 3)
    assert rho.ci95 == pytest.approx(Interval(0.6, 0.6)), "personas that agree leave nothing to resample"


def test_ties_between_policies_are_ties() -> None:
    """Means 1 1 2 against 1 2 3: tau-b 2 / sqrt(2 * 3)."""
    first = {name: {"p": mean} for name, mean in zip("abc", (1.0, 1.0, 2.0), strict=True)}
    second = {name: {"p": mean} for name, mean in zip("abc", (1.0, 2.0, 3.0), strict=True)}
    _, tau = over_policies(first, second, Sampling(SAMPLES, 1))
    assert tau is not None and tau.value == pytest.approx(2 / 6**0.5)


def test_an_order_that_hangs_on_few_personas_has_a_wide_interval() -> None:
    draw = random.Random(5)
    people = [f"p{number}" for number in range(20)]
    first = {name: {one: draw.gauss(50, 20) for one in people} for name in "abcde"}
    second = {name: {one: draw.gauss(50, 20) for one in people} for name in "abcde"}
    rho, _ = over_policies(first, second, Sampling(SAMPLES, 1))
    assert rho is not None and rho.ci95.high - rho.ci95.low > 0.8


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"a": {"p": 1.0}}, {"a": {"p": 1.0}}, "the same two policies or more"),
        ({"a": {"p": 1.0}, "b": {"p": 1.0}}, {"a": {"p": 1.0}, "c": {"p": 1.0}}, "the same two policies or more"),
        ({"a": {"p": 1.0}, "b": {"q": 1.0}}, {"a": {"p": 1.0}, "b": {"q": 1.0}}, "no persona was appraised by both"),
    ],
)
def test_what_has_no_order_is_refused(first: dict[str, dict[str, float]], second: dict[str, dict[str, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        over_policies(first, second, Sampling(SAMPLES, 1))
