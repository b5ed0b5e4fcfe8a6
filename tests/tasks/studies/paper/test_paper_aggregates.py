"""The interquartile mean over seeds and scenarios, on tables small enough for a pencil."""

from __future__ import annotations

import pytest

from rlver.tasks.studies.paper.aggregates import interquartile_mean

SAMPLES = 2000


def test_the_middle_half_of_seeds_by_scenarios_is_averaged():
    """Seeds 0, 10 and 20, 100: 0 and 100 are cut off, 15 is left. Both draws the first: 0, 0, 10, 10, so 5; both the second: 60; each in a quarter."""
    found = interquartile_mean({7: {"a": [0], "b": [5, 15]}, 8: {"a": [20], "b": [100]}}, {}, SAMPLES, 7)
    assert found is not None and (found.value, found.n) == (15, 2) and tuple(found.ci95) == (5, 60)


def test_a_seed_is_drawn_whole_since_its_luck_is_the_same_in_every_scenario():
    """Drawn anew in each of 16 scenarios, as rliable does, 40 and 60 would average out to about 50 +- 4."""
    names = [f"p{number}" for number in range(16)]
    found = interquartile_mean({7: {name: [40] for name in names}, 8: {name: [60] for name in names}}, {}, SAMPLES, 7)
    assert found is not None and found.value == 50 and tuple(found.ci95) == (40, 60)


def test_personas_are_drawn_within_their_scenario():
    """Two personas of a scenario, 20 and 40 with every seed: a draw is 20, 30 or 40. Each a scenario of its own, it is always 30."""
    emotions = {"a": [20], "b": [40]}
    together = interquartile_mean({7: emotions, 8: emotions}, {"a": "s", "b": "s"}, SAMPLES, 7)
    assert together is not None and together.value == 30 and tuple(together.ci95) == (20, 40)
    apart = interquartile_mean({7: emotions, 8: emotions}, {}, SAMPLES, 7)
    assert apart is not None and apart.value == 30 and apart.ci95.high - apart.ci95.low > 20, "draws that are all alike have no width of 0"


def test_one_seed_or_no_persona_in_common_has_none():
    assert interquartile_mean({7: {"a": [1]}}, {}, SAMPLES, 7) is None
    assert interquartile_mean({7: {"a": [1]}, 8: {"b": [1]}}, {}, SAMPLES, 7) is None


def test_a_scenario_weighs_as_much_as_another_however_many_personas_it_has():
    emotions = {"a": [0], "b": [0], "c": [0], "d": [60]}
    found = interquartile_mean({7: emotions, 8: emotions}, {"a": "s", "b": "s", "c": "s", "d": "t"}, SAMPLES, 7)
    assert found is not None and found.value == pytest.approx(30)
