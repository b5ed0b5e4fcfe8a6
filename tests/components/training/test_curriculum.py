"""Which user is met when."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from fakes import people

from rlver.components.domain.persona import HiddenNeed
from rlver.components.domain.transcript import Dialogue
from rlver.components.training.curriculum import Curriculum

BOTH = ("vanilla", "challenging")
PEOPLE = people()[0]


def curriculum(kind: str, **changes: Any) -> Curriculum:
    return Curriculum(**{"kind": kind, "difficulties": BOTH, "steps": 10, "low": 40, "high": 80, "seed": 3, **changes})


def ended(need: HiddenNeed, *finals: int | None) -> list[Dialogue]:
    """Dialogues as far as a curriculum looks at them."""
    return [Dialogue.model_construct(hidden_need=need.value, emotion_final=final) for final in finals]


def test_without_a_curriculum_there_is_one_kind_of_user() -> None:
    one = curriculum("none", difficulties=("challenging",))
    assert {one.difficulty(person, step) for person in PEOPLE for step in range(10)} == {"challenging"}
    assert one.row() == {}


def test_stages_share_the_run_equally() -> None:
    staged = curriculum("staged")
    assert [staged.difficulty(PEOPLE[0], step) for step in range(10)] == ["vanilla"] * 5 + ["challenging"] * 5


def test_who_fails_meets_nobody_harsh_and_who_succeeds_meets_nobody_else() -> None:
    adaptive = curriculum("adaptive")
    assert {adaptive.difficulty(person, 0) for person in PEOPLE} == {"vanilla"}, "at first"
    for need in HiddenNeed:
        adaptive.observe(ended(need, 30, 40))
    assert {adaptive.difficulty(person, 1) for person in PEOPLE} == {"vanilla"}
    for _ in range(30):
        for need in HiddenNeed:
            adaptive.observe(ended(need, 90, 90))
    assert {adaptive.difficulty(person, 2) for person in PEOPLE} == {"challenging"}


def test_in_between_the_share_follows_the_recent_emotion_of_the_same_need() -> None:
    adaptive = curriculum("adaptive")
    need, other = PEOPLE[0].hidden_need, next(n for n in HiddenNeed if n != PEOPLE[0].hidden_need)
    adaptive.observe([*ended(need, 60, None), *ended(other, 40)])
    assert adaptive.share(need) == pytest.approx(0.5) and adaptive.share(other) == 0
    met = Counter(adaptive.difficulty(PEOPLE[0], step) for step in range(1000))
    assert 440 < met["challenging"] < 560
    adaptive.observe(ended(need, 80))  # .8 of 60 and .2 of 80
    assert adaptive.recent[need] == pytest.approx(64)


def test_what_was_recorded_is_enough_to_go_on() -> None:
    adaptive = curriculum("adaptive")
    for number, need in enumerate(list(HiddenNeed)[:5]):
        adaptive.observe(ended(need, 50 + 5 * number))
    again = curriculum("adaptive")
    again.restore(adaptive.row())
    for step in range(20):
        assert [again.difficulty(person, step) for person in PEOPLE] == [adaptive.difficulty(person, step) for person in PEOPLE]
    assert 0 < adaptive.row()["share_challenging"] < 1
