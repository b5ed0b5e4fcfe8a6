"""The bars of the promotion gate, on few policies: python -m benchmarks.promotion_gate prints the whole table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.promotion_gate import LOST, World, allowed_loss, measured, rates, relation_spread

pytestmark = pytest.mark.no_cover

SHIPPED = World(times=1, design=1.0)


def test_eight_points_lost_are_refused_and_nothing_lost_is_promoted():
    lost = rates(SHIPPED, LOST, 0.0, allowed_loss(), 60, 7)
    assert lost.now <= 0.05 and lost.before > 0.5, "the rule before promoted most of them"
    assert rates(SHIPPED, 0.0, 0.0, allowed_loss(), 60, 7).now >= 0.8


def test_the_simulated_policies_lose_what_they_should():
    random = np.random.default_rng(7)
    pairs = [measured(World(times=4, design=2.0), 0.08, 0.02, random) for _ in range(40)]
    for task, truth in (("choice", -0.08), ("likelihood", 0.02)):
        changes = [tuned["tasks"][task]["value"] - base["tasks"][task]["value"] for base, tuned in pairs]
        assert np.mean(changes) == pytest.approx(truth, abs=0.012)


def test_a_design_effect_of_one_means_relations_that_are_not_alike():
    assert relation_spread(0.07, 1.0) == 0
    assert relation_spread(0.07, 2.0) == pytest.approx(0.058, abs=0.002)
