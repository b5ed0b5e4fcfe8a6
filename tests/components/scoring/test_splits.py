"""Of which set the personas of a score are: named, and warned of where a score mixes several."""

from __future__ import annotations

from rlver.components.scoring.splits import mixture, persona_splits, said


def test_the_set_is_part_of_the_id(dialogue):
    ids = ("en-test-0001-0a1b2c3d4e", "en-test-0002-0a1b2c3d4e", "en-train-0001-0a1b2c3d4e", "en-sealed-0001-0a1b2c3d4e", "r17")
    found = persona_splits([dialogue(name, [0]) for name in (*ids, ids[0])])
    assert found == {"imported": 1, "sealed": 1, "test": 2, "train": 1}
    assert said(found) == "1 imported, 1 sealed, 2 test, 1 train"


def test_a_mixture_is_warned_of_and_one_set_is_not():
    assert mixture({"test": 100}) is None and mixture({}) is None
    assert (mixture({"test": 100, "train": 32}) or "").startswith("Personas of several sets (100 test, 32 train) are in one score")
