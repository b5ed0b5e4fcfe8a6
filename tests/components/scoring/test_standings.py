"""Rows of the leaderboard: one policy with one kind of user, and never without intervals."""

from __future__ import annotations

import dataclasses

import pytest

from rlver.components.domain.transcript import SimulatorTag
from rlver.components.scoring.leaderboard import Standing, standing
from rlver.components.scoring.units import Sampling
from rlver.tasks.runtime.boards import leaderboard


def test_a_row_has_an_interval_for_everything_it_says(dialogue, failed):
    """p ends at 100, q at 0, and r failed: mean 50, one success and one failure among two."""
    row = standing([dialogue("p", [10] * 6), dialogue("q", [-10] * 4), failed("r")], "x.jsonl", Sampling(500, 7))
    assert (row.dialogues, row.unscorable) == (2, 1)
    assert (row.emotion.value, row.success.value, row.failure.value) == (50, 0.5, 0.5)
    for estimated in (row.emotion, row.success, row.failure):
        assert estimated.ci95.low < estimated.value < estimated.ci95.high
    with pytest.raises(TypeError, match="emotion"):
        Standing(**{field.name: getattr(row, field.name) for field in dataclasses.fields(row) if field.name != "emotion"})


def test_a_row_is_one_policy_with_one_user(dialogue, failed):
    a, b = dialogue("p", [0]), dialogue("q", [0])
    with pytest.raises(ValueError, match=r"x: a row is one policy .* policies "):
        standing([a, b.model_copy(update={"policy": "other"})], "x", Sampling(100, 7))
    with pytest.raises(ValueError, match=r"x: a row is one policy .* users "):
        standing(
            [a, b.model_copy(update={"simulator": SimulatorTag(kind="llm", difficulty="vanilla", version="2")})], "x", Sampling(100, 7)
        )
    with pytest.raises(ValueError, match="none of 1 dialogues can be scored"):
        standing([failed("r")], "x", Sampling(100, 7))


def test_rows_of_different_people_of_one_set_are_told(dialogue, failed):
    a, b, fewer = (
        standing([dialogue("p", [10] * 6), last, dialogue("r", [1])], "x", Sampling(100, 7))
        if last
        else standing([dialogue("p", [10] * 6), dialogue("r", [1])], "x", Sampling(100, 7))
        for last in (dialogue("q", [1]), failed("q"), None)
    )
    assert "different personas of one set" not in leaderboard([a, b], published=False), "a failure is no other person"
    assert "The rows are of different personas of one set: compare rows of the same personas only." in leaderboard([a, fewer], False)
