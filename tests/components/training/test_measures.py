"""What a batch of rollouts is summed up to."""

from __future__ import annotations

import math

import pytest
from fakes import a_dialogue, an_appraisal

from rlver.components.domain.acts import right_acts
from rlver.components.domain.transcript import Dialogue, Evidence, StopReason, Turn
from rlver.components.rollout.episode import Rollout
from rlver.components.training.watch import measure, one_act_rate

SERVES, MISSES, REPEATS = (Evidence(step="target", what=what) for what in ("serves_need", "misses_need", "repeats"))


def rollout(dialogue: Dialogue, well_formed: bool = True) -> Rollout:
    return Rollout(dialogue, (), (), (), (), (), (), None if well_formed else 0, cut_off_turns=())


def cued(*turns: tuple[bool, Evidence | None]) -> Dialogue:
    """A dialogue whose turns carry (a cue, evidence)."""
    made = [
        Turn(user="u", assistant="r", emotion=40, cue=cue, appraisal=an_appraisal(0, *([evidence] if evidence else [])))
        for cue, evidence in turns
    ]
    return a_dialogue("d", [0], turns=made)


FAILED = a_dialogue("f", [1]).model_copy(update={"emotion_final": None, "error": "x", "stop_reason": StopReason.FAILED})


def test_only_turns_from_the_first_cue_on_can_be_right() -> None:
    assert right_acts(cued((False, SERVES), (True, SERVES), (False, MISSES), (True, None))) == [(1, 1.0), (2, 0.0), (3, 0.0)]
    assert right_acts(cued((False, SERVES))) == []


def test_rates_are_shares_of_the_scorable_dialogues() -> None:
    found = measure([rollout(a_dialogue("a", [10] * 6)), rollout(a_dialogue("b", [-10] * 4), False), rollout(FAILED)])
    assert (found["n"], found["failed_dialogues"]) == (2, 1)
    assert found["emotion_mean"] == 50.0
    assert (found["success_rate"], found["failure_rate"], found["malformed_rate"]) == (0.5, 0.5, 0.5)
    assert found["turns_mean"] == 5.0


def test_a_full_context_is_counted_by_itself_and_not_as_a_failure() -> None:
    full = a_dialogue("a", [-10, -4], stop=StopReason.CONTEXT_FULL)
    found = measure([rollout(full), rollout(a_dialogue("b", [2]))])
    assert (found["n"], found["failed_dialogues"], found["context_full_rate"], found["emotion_mean"]) == (2, 0, 0.5, 34.0)


def test_acts_and_repeats_are_counted_over_turns() -> None:
    found = measure([rollout(cued((True, SERVES), (True, REPEATS), (True, MISSES), (True, SERVES)))])
    assert (found["right_act_rate"], found["repeat_rate"]) == (0.5, 0.25)


def test_a_policy_that_does_one_thing_shows() -> None:
    def did(*acts: str) -> list[Evidence]:
        return [Evidence(step="content", what=act) for act in acts]

    assert one_act_rate([did("advise"), did("advise", "comfort", "comfort"), did("comfort", "advise"), did("not_a_reply")]) == 0.75
    assert one_act_rate([did("not_a_reply"), did()]) == 0
    assert math.isnan(one_act_rate([]))


def test_tokens_are_means_over_turns() -> None:
    turns = [Turn(user="u", assistant="r", emotion=40, appraisal=an_appraisal(0), reply_tokens=n, think_tokens=2 * n) for n in (4, 8)]
    found = measure([rollout(a_dialogue("d", [0], turns=turns))])
    assert (found["reply_tokens"], found["think_tokens"]) == (6.0, 12.0)


@pytest.mark.parametrize("rollouts", [[], [rollout(FAILED)]])
def test_where_nothing_could_be_scored_there_is_no_number(rollouts: list[Rollout]) -> None:
    found = measure(rollouts)
    assert found["n"] == 0
    assert all(math.isnan(found[name]) for name in ("emotion_mean", "success_rate", "right_act_rate", "turns_mean"))


def test_a_learned_appraiser_names_no_acts_so_nobody_counts_them() -> None:
    told = cued((True, SERVES), (True, REPEATS))
    learned = told.model_copy(update={"simulator": told.simulator.model_copy(update={"kind": "distilled+scripted"})})
    assert right_acts(told) == [(0, 1.0), (1, 0.0)] and right_acts(learned) == []
    found = measure([rollout(learned)])
    assert all(math.isnan(found[name]) for name in ("right_act_rate", "repeat_rate", "one_act_rate"))
