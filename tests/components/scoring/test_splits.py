"""Of which set the personas of a score are: named, and several in one score are refused."""

from __future__ import annotations

import pytest

from rlver.components.scoring.leaderboard import compare, standing
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.splits import mixture, only_set, persona_splits, refuse_mixture, said
from rlver.components.scoring.units import Sampling


def test_the_set_is_part_of_the_id(dialogue):
    ids = ("en-test-0001-0a1b2c3d4e", "en-test-0002-0a1b2c3d4e", "en-train-0001-0a1b2c3d4e", "en-sealed-0001-0a1b2c3d4e", "r17")
    found = persona_splits([dialogue(name, [0]) for name in (*ids, ids[0])])
    assert found == {"imported": 1, "sealed": 1, "test": 2, "train": 1}
    assert said(found) == "1 imported, 1 sealed, 2 test, 1 train"
    assert persona_splits([dialogue("en-test-10000-0a1b2c3d4e", [0])]) == {"test": 1}, "the ten thousandth has five digits"


def test_a_score_of_a_mixture_is_refused(dialogue):
    mixed = [dialogue("en-test-0001-0a1b2c3d4e", [5]), dialogue("en-sealed-0001-0a1b2c3d4e", [5])]
    assert only_set(mixed[:1]) == {"test": 1}
    for score in (
        lambda: only_set(mixed),
        lambda: sentient_metrics(mixed, None, Sampling(10, 1)),
        lambda: standing(mixed, "file", Sampling(10, 1)),
        lambda: compare(mixed, mixed, Sampling(10, 1)),
    ):
        with pytest.raises(ValueError, match=r"several sets \(1 sealed, 1 test\)"):
            score()


def test_a_mixture_is_told_from_one_set():
    assert mixture({"test": 100}) is None and mixture({}) is None
    assert (mixture({"test": 100, "train": 32}) or "").startswith("Personas of several sets (100 test, 32 train) are in one score")


def test_figures_of_several_policies_are_refused(dialogue):
    mixed = [dialogue("a", [5]), dialogue("b", [5]).model_copy(update={"policy": "q"})]
    for score in (
        lambda: refuse_mixture(mixed),
        lambda: sentient_metrics(mixed, None, Sampling(10, 1)),
        lambda: sentient_metrics(mixed[:1], mixed, Sampling(10, 1)),
    ):
        with pytest.raises(ValueError, match=r"figures are of one policy, got p, q; put each into a file of its own"):
            score()
    assert sentient_metrics(mixed[:1], [dialogue("a", [7]).model_copy(update={"policy": "q"})], Sampling(10, 1))["n"] == 1
