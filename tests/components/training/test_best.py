"""Which weights a training ends with where train.keep is best."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from rlver.components.training.best import KEPT, BestWeights


class Two(nn.Module):
    """Two weights, of which one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.learns, self.frozen = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3), requires_grad=False)

    def at(self, value: float) -> None:
        with torch.no_grad():
            self.learns.fill_(value)


def seen(folder: Path, emotions: dict[int, float], wanted: bool = True) -> tuple[BestWeights, Two]:
    """At each step the weight that learns is the step's number."""
    model = Two()
    best = BestWeights(folder / "best", model, wanted)
    for step, emotion in emotions.items():
        model.at(step)
        best.saw(step, emotion)
    return best, model


@pytest.mark.parametrize(
    ("emotions", "step"),
    [
        ({0: 30, 8: 48, 16: 42}, 8),
        ({0: 30, 8: 20, 16: 10}, 0),
        ({0: 30, 8: 40, 16: 50}, 16),
        ({0: 30, 8: 30}, 0),
        ({0: math.nan, 8: 5, 16: math.nan}, 8),
    ],
)
def test_the_weights_of_the_best_check_come_back(tmp_path: Path, emotions: dict[int, float], step: int) -> None:
    best, model = seen(tmp_path, emotions)
    assert best.put_back() == step
    assert model.learns.tolist() == [step] * 3 and model.frozen.tolist() == [0.0] * 3
    assert len(list((tmp_path / "best").iterdir())) <= KEPT


@pytest.mark.parametrize(("emotions", "wanted"), [({0: 30.0, 8: 40.0}, False), ({0: math.nan}, True), ({}, True)])
def test_where_none_is_wanted_or_none_was_scored_nothing_is_touched(tmp_path: Path, emotions: dict[int, float], wanted: bool) -> None:
    best, model = seen(tmp_path, emotions, wanted)
    model.at(99)
    assert best.put_back() is None and model.learns.tolist() == [99.0] * 3
    assert not (tmp_path / "best").exists()


def test_a_run_that_goes_on_knows_the_best_check_before_it_stopped(tmp_path: Path) -> None:
    seen(tmp_path, {0: 30, 8: 48, 16: 55})
    model = Two()
    best = BestWeights(tmp_path / "best", model, True)
    best.resume(
        [{"step": 0, "emotion_mean": 30.0}, {"step": 8, "emotion_mean": 48.0}, {"step": 12, "emotion_mean": None}]
    )  # 16 is done again
    best.saw(16, 47.0)
    assert best.put_back() == 8 and model.learns.tolist() == [8.0] * 3
