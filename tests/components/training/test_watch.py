"""What a step took, where a check on held-out personas lies between two steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rlver.components.training import watch
from rlver.components.training.curves import CurveFile
from rlver.components.training.watch import TrainingLimits, TrainingWatch, measure


def test_the_seconds_of_a_step_do_not_hold_the_check_before_it_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer logs a step after its check. Steps take 2 s, the check after every second one 30 s. The time that is left holds checks."""
    clock, shown, nothing = SimpleNamespace(now=100.0), list[str](), measure([])
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def check(step: int) -> dict[str, float]:
        clock.now += 30.0
        return nothing

    steps, checks = (CurveFile(tmp_path / name) for name in ("train", "evaluation"))
    watching = TrainingWatch(steps, checks, lambda: nothing, check, 2, TrainingLimits(0.0, 1.0, 1.0, 0.05), shown.append)
    watching.on_train_begin(None, SimpleNamespace(global_step=0), None)
    for step in range(1, 5):
        clock.now += 2.0
        state = SimpleNamespace(global_step=step, max_steps=8)
        watching.on_step_end(None, state, None)
        watching.on_log(None, state, None, {"loss": 0.0, "grad_norm": 1.0})
    assert [row["step"] for row in checks.rows()] == [0, 2, 4]
    assert [row["seconds"] for row in steps.rows()] == [2.0] * 4
    assert shown[-1].endswith("2.0 s  ETA 1.6 min"), "checks are still to come: (30 + 4 x 2 + 2 x 30) s for 4 steps, so 98 s for 4 more"
