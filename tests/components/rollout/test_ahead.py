"""Dialogues one step ahead: the next step's run beside the update, with the weights as they were before it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rlver.components.rollout.ahead import OneStepAhead

PLAN = {0: ["a"], 1: ["b"], 2: ["c"]}


def after(step: int) -> tuple[Sequence[str], int] | None:
    return (PLAN[step + 1], step + 1) if step + 1 in PLAN else None


@dataclass
class Engine:
    """Weights that an update changes, those that speak, and a log of who spoke with which."""

    weights: int = 0
    speaking: int = -1
    spoken: list[tuple[str, int, int]] = field(default_factory=list)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def snapshot(self) -> None:
        self.speaking = self.weights

    def hold(self, persona_ids: Sequence[str], step: int) -> list[Any]:
        if threading.current_thread() is not threading.main_thread():
            assert self.may_go_on.wait(timeout=30)
        self.spoken.append((*persona_ids, step, self.speaking))
        return [f"{name} of {step}" for name in persona_ids]


def test_a_step_s_dialogues_are_held_during_the_update_before_it_with_the_weights_of_its_start() -> None:
    engine = Engine()
    rollouts = OneStepAhead(engine.hold, after, engine.snapshot)
    taken = []
    for step, names in PLAN.items():
        taken.append(rollouts(names, step))
        assert len(engine.spoken) == step + 1, "the next step's are still under way: the trainer was not kept waiting"
        engine.weights += 1  # the update
        engine.may_go_on.set()
        with rollouts.settled():
            pass
        engine.may_go_on.clear()
    assert taken == [["a of 0"], ["b of 1"], ["c of 2"]]
    assert engine.spoken == [("a", 0, 0), ("b", 1, 0), ("c", 2, 1)], "one step stale, never two"


def test_whoever_needs_the_speakers_waits_for_those_who_speak() -> None:
    engine = Engine()
    rollouts = OneStepAhead(engine.hold, after, engine.snapshot)
    rollouts(["a"], 0)
    engine.weights = 9
    engine.may_go_on.set()
    with rollouts.settled():
        assert [step for _, step, _ in engine.spoken] == [0, 1]
    assert rollouts(["b"], 1) == ["b of 1"] and engine.spoken[1] == ("b", 1, 0)


def test_what_ends_the_dialogues_is_heard_by_the_step_that_asks_for_them() -> None:
    def hold(persona_ids: Sequence[str], step: int) -> list[Any]:
        if step == 1:
            raise ConnectionError("away")
        return []

    rollouts = OneStepAhead(hold, after, lambda: None)
    rollouts(["a"], 0)
    with rollouts.settled():
        pass
    with pytest.raises(ConnectionError, match="away"):
        rollouts(["b"], 1)


def test_dialogues_of_another_step_are_refused() -> None:
    engine = Engine()
    engine.may_go_on.set()
    rollouts = OneStepAhead(engine.hold, after, engine.snapshot)
    rollouts(["a"], 0)
    with pytest.raises(RuntimeError, match="step 1 were held ahead, and step 2 was asked for"):
        rollouts(["c"], 2)
