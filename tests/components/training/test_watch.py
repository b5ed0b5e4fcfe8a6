"""What a step took, where a check on held-out personas lies between two steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import TrainerControl

from rlver.components.training import watch
from rlver.components.training.curves import CurveFile
from rlver.components.training.watch import TrainingLimits, TrainingWatch, measure


def test_the_seconds_of_a_step_do_not_hold_the_check_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check comes before the next step. Steps take 2 s, the check after every second one 30 s. The time that is left holds checks."""
    clock, shown, nothing = SimpleNamespace(now=100.0), list[str](), measure([])
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def check(step: int) -> dict[str, float]:
        clock.now += 30.0
        return nothing

    steps, checks = (CurveFile(tmp_path / name) for name in ("train", "evaluation"))
    watching = TrainingWatch(steps, checks, lambda: nothing, check, 2, TrainingLimits(0.0, 1.0, 1.0, 0.05), shown.append, True)
    watching.on_train_begin(None, SimpleNamespace(global_step=0, max_steps=8), None)
    for step in range(1, 5):
        watching.on_step_begin(None, SimpleNamespace(global_step=step - 1, max_steps=8), None)
        clock.now += 2.0
        watching.on_log(None, SimpleNamespace(global_step=step, max_steps=8), None, {"loss": 0.0, "grad_norm": 1.0})
    assert [row["step"] for row in checks.rows()] == [0, 2]
    assert [row["seconds"] for row in steps.rows()] == [2.0] * 4
    assert shown[-1].endswith("2.0 s  ETA 1.1 min"), "checks are still to come: (30 + 4 x 2 + 30) s for 4 steps, so 68 s for 4 more"


@pytest.mark.parametrize(
    ("malformed", "thinking", "why"),
    [
        (0.97, True, "97% of the dialogues are malformed; set policy.thinking: false, or show"),
        (0.97, False, "97% of the dialogues are malformed: replies are empty, or hold the tags of thoughts; take a model"),
        (0.5, False, "in each group all dialogues fared alike; raise"),
    ],
)
def test_a_training_from_which_nobody_learns_is_told_of_once(malformed: float, thinking: bool, why: str, tmp_path: Path) -> None:
    shown, nothing = list[str](), measure([]) | {"malformed_rate": malformed}
    steps, checks = (CurveFile(tmp_path / name) for name in ("train", "evaluation"))
    watching = TrainingWatch(
        steps, checks, lambda: nothing, lambda step: {}, 99, TrainingLimits(0.0, 1.0, 1.0, 0.05), shown.append, thinking
    )

    def learned(shares: list[float | None]) -> list[str]:
        """What is said of such steps, beside the line of each."""
        shown.clear()
        for step, share in enumerate(shares, start=1):
            logs = {"loss": 0.0, "grad_norm": 0.0} | ({} if share is None else {"learning_share": share})
            watching.on_log(None, SimpleNamespace(global_step=step, max_steps=99), None, logs)
        return [line for line in shown if not line.startswith("step ")]

    assert learned([0.0] * 4 + [0.1] + [0.0, None] * 4) == []
    (line,) = learned([0.0])
    assert line.startswith(f"warning: nobody learned in the last 5 steps: {why}")
    assert learned([0.1] + [0.0] * 9) == []


def test_a_check_that_was_broken_off_before_its_weights_were_kept_has_no_row(tmp_path: Path) -> None:
    """So a training that goes on makes it again."""

    def saw(step: int, emotion: float) -> None:
        raise KeyboardInterrupt

    nothing, limits = measure([]), TrainingLimits(0.0, 1.0, 1.0, 0.05)
    steps, checks = (CurveFile(tmp_path / name) for name in ("train", "evaluation"))
    watching = TrainingWatch(steps, checks, lambda: nothing, lambda step: nothing, 2, limits, lambda line: None, True, saw=saw)
    with pytest.raises(KeyboardInterrupt):
        watching.on_train_begin(None, SimpleNamespace(global_step=0, max_steps=8), None)
    assert checks.rows() == []


def test_a_step_is_saved_before_its_check(tmp_path: Path) -> None:
    """A check that breaks off must cost no step, also where evaluate_every is no multiple of save_every."""
    steps, checks = (CurveFile(tmp_path / name) for name in ("train", "evaluation"))
    nothing, limits = measure([]), TrainingLimits(0.0, 1.0, 1.0, 0.05)
    watching = TrainingWatch(steps, checks, lambda: nothing, lambda step: nothing, 5, limits, lambda line: None, True)

    def is_saved(step: int) -> bool:
        control = TrainerControl()
        watching.on_step_end(None, SimpleNamespace(global_step=step, max_steps=12), control)
        return control.should_save

    assert [step for step in range(1, 13) if is_saved(step)] == [5, 10, 12]
