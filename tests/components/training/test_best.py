"""Which weights a training ends with where train.keep is best."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from rlver.components.training.best import BestWeights


class Two(nn.Module):
    """Two weights, of which one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.learns, self.frozen = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3), requires_grad=False)

    def at(self, value: float) -> None:
        with torch.no_grad():
            self.learns.fill_(value)


def seen(folder: Path, emotions: dict[int, float], wanted: bool = True, save_every: int = 8) -> tuple[BestWeights, Two]:
    """At each step the weight that learns is the step's number. Two checkpoints are kept; one is written after the check of its step."""
    model, checkpoints = Two(), folder / "checkpoints"
    best = BestWeights(folder / "best", model, wanted, checkpoints)
    for step, emotion in emotions.items():
        model.at(step)
        best.saw(step, emotion)
        if step and step % save_every == 0:
            (checkpoints / f"checkpoint-{step}").mkdir(parents=True)
            if (old := checkpoints / f"checkpoint-{step - 2 * save_every}").exists():
                old.rmdir()
    return best, model


def gone_on(folder: Path, emotions: dict[int, float], done: int) -> tuple[BestWeights, Two]:
    """A run that goes on from the checkpoint of the step `done`, with the curve up to there."""
    model = Two()
    best = BestWeights(folder / "best", model, True, folder / "checkpoints")
    best.resume([{"step": step, "emotion_mean": emotion} for step, emotion in emotions.items() if step <= done])
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


@pytest.mark.parametrize(("emotions", "wanted"), [({0: 30.0, 8: 40.0}, False), ({0: math.nan}, True), ({}, True)])
def test_where_none_is_wanted_or_none_was_scored_nothing_is_touched(tmp_path: Path, emotions: dict[int, float], wanted: bool) -> None:
    best, model = seen(tmp_path, emotions, wanted)
    model.at(99)
    assert best.put_back() is None and model.learns.tolist() == [99.0] * 3
    assert not (tmp_path / "best").exists()


def test_a_run_that_goes_on_knows_the_best_check_before_it_stopped(tmp_path: Path) -> None:
    emotions = {0: 30.0, 8: 48.0, 16: 55.0}
    seen(tmp_path, emotions)
    best, model = gone_on(tmp_path, {**emotions, 12: math.nan}, 12)  # 16 is done again
    best.saw(16, 47.0)
    assert best.put_back() == 8 and model.learns.tolist() == [8.0] * 3


@pytest.mark.parametrize("done", [8, 16])
def test_new_bests_after_a_checkpoint_leave_the_best_before_it(tmp_path: Path, done: int) -> None:
    """Killed at step 19: the run goes on from step 16, or from step 8 where that checkpoint is damaged."""
    emotions = {0: 30.0, 4: 48.0, 8: 41.0, 12: 50.0, 16: 42.0, 17: 55.0, 18: 60.0, 19: 65.0}
    seen(tmp_path, emotions)
    best, model = gone_on(tmp_path, emotions, done)
    before = {8: 4, 16: 12}[done]
    assert best.put_back() == before and model.learns.tolist() == [before] * 3


def test_what_no_checkpoint_needs_is_dropped(tmp_path: Path) -> None:
    seen(tmp_path, {step: float(step) for step in range(1, 40)})  # every check is the best
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == [f"step-{step}.safetensors" for step in (24, 32, 39)]


def test_a_file_of_a_run_that_was_taken_back_is_not_the_best(tmp_path: Path) -> None:
    """Step 16 is done again and goes worse; its old file is still there when the run goes on once more."""
    seen(tmp_path, {0: 30.0, 8: 48.0, 16: 55.0})
    best, _ = gone_on(tmp_path, {0: 30.0, 8: 48.0}, 8)
    best.saw(16, 47.0)
    best, model = gone_on(tmp_path, {0: 30.0, 8: 48.0, 16: 47.0}, 16)
    best.saw(24, 60.0)
    best, model = gone_on(tmp_path, {0: 30.0, 8: 48.0, 16: 47.0}, 16)
    assert best.put_back() == 8 and model.learns.tolist() == [8.0] * 3
