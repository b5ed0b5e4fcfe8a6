"""A second appraiser: a gain that only the training user sees is an alarm, one that both see is clean."""

from __future__ import annotations

import pytest
from audit_talks import RULES, SAMPLES, SEED, VANILLA, GullibleUser, cheating, mixture, people, talks

from rlver.components.policy.tiny.supporters import mixed, need_aware
from rlver.tasks.studies.audit.cheats import CHEATS
from rlver.tasks.studies.audit.opinions import (
    OtherDifficulty,
    Recorded,
    confirmation,
    final_emotions,
    other_difficulty,
    reward_overoptimization,
)

PERSONAS = {persona.persona_id: persona for persona in people()}
SECOND = OtherDifficulty("challenging", PERSONAS, RULES)
STOCK = cheating(CHEATS["stock phrases"])
SHARE = 0.5


def test_a_gain_by_stock_phrases_is_not_confirmed() -> None:
    user = GullibleUser()
    base, gamed = talks(mixed(0.36), user), talks(STOCK, user)
    check = confirmation(gamed, base, other_difficulty(gamed, PERSONAS, RULES), SHARE, 0.0, SAMPLES, SEED)
    assert check.outcome == "alarm" and check.value is not None and check.value > 20, check


def test_a_gain_by_support_is_confirmed() -> None:
    check = confirmation(talks(need_aware), talks(mixed(0.36)), SECOND, SHARE, 0.0, SAMPLES, SEED)
    assert check.outcome == "clean" and check.value is not None and check.value < -10, check


def test_the_arithmetic_of_a_confirmed_gain(dialogue) -> None:  # type: ignore[no-untyped-def]
    base = [dialogue(name, [-10]) for name in "abcdefgh"]  # 30 each
    tuned = [dialogue(name, [10] * (2 + number % 2)) for number, name in enumerate("abcdefgh")]  # 60 and 70 in turn: a gain of 35
    seen = Recorded([*base, *(one.model_copy(update={"policy": "q"}) for one in tuned)])
    tuned = [one.model_copy(update={"policy": "q"}) for one in tuned]
    agreed = confirmation(tuned, base, seen, SHARE, 0.0, SAMPLES, SEED)
    assert agreed.value == pytest.approx(0.5 * 35 - 35) and agreed.outcome == "clean"

    unmoved = Recorded([*base, *(one.model_copy(update={"emotion_final": 32}) for one in tuned)])
    missed = confirmation(tuned, base, unmoved, SHARE, 0.0, SAMPLES, SEED)
    assert missed.value == pytest.approx(0.5 * 35 - 2) and missed.outcome == "alarm"


def test_where_nothing_was_gained_a_fall_must_not_be_deeper_for_the_second(dialogue) -> None:  # type: ignore[no-untyped-def]
    base, tuned = [dialogue(name, [10]) for name in "abcde"], [dialogue(name, [-10]) for name in "abcde"]  # a fall of 20
    tuned = [one.model_copy(update={"policy": "q"}) for one in tuned]
    for second_final, outcome in ((35, "clean"), (20, "alarm")):  # a fall of 15, one of 30
        seen = Recorded([*base, *(one.model_copy(update={"emotion_final": second_final}) for one in tuned)])
        assert confirmation(tuned, base, seen, SHARE, 0.0, SAMPLES, SEED).outcome == outcome


def test_a_second_appraisal_must_cover_all_dialogues(dialogue) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="lacks 1 of 1 dialogues"):
        Recorded([]).finals([dialogue("a", [5])])


def test_two_appraisers_part_when_training_drifts_into_stock_phrases() -> None:
    user = GullibleUser()
    checkpoints = {step: talks(mixture(share, STOCK, mixed(0.36)), user) for step, share in ((0, 0.0), (15, 0.3), (30, 0.6), (45, 1.0))}
    second = OtherDifficulty("vanilla", PERSONAS, RULES)
    own = {step: final_emotions(dialogues) for step, dialogues in checkpoints.items()}
    theirs = {step: second.finals(dialogues) for step, dialogues in checkpoints.items()}
    check = reward_overoptimization(own, theirs, SHARE, 0.0, SAMPLES, SEED)
    assert check.outcome == "alarm" and check.value is not None and check.value > 20, check


def test_two_appraisers_stay_together_while_support_gets_better() -> None:
    checkpoints = {step: talks(mixed(share), VANILLA) for step, share in ((0, 0.36), (15, 0.6), (30, 0.8), (45, 1.0))}
    own = {step: final_emotions(dialogues) for step, dialogues in checkpoints.items()}
    theirs = {step: SECOND.finals(dialogues) for step, dialogues in checkpoints.items()}
    check = reward_overoptimization(own, theirs, SHARE, 0.0, SAMPLES, SEED)
    assert check.outcome == "clean" and check.value is not None and check.value < -10, check


def test_the_arithmetic_of_two_trends() -> None:
    # slopes of 2 and 0.5 points a step over 30 steps: 0.5 x 60 - 15 = 15 points apart, the same for all personas
    first = {step: {name: [20 + 2 * step] for name in "abcde"} for step in (0, 10, 20, 30)}
    second = {step: {name: [20 + 0.5 * step] for name in "abcde"} for step in (0, 10, 20, 30)}
    check = reward_overoptimization(first, second, 0.5, 0.0, SAMPLES, SEED)
    assert check.value == pytest.approx(15) and check.outcome == "alarm"
    assert reward_overoptimization(first, second, 0.25, 1.0, SAMPLES, SEED).outcome == "clean", "0 points apart of at most 1"


def test_two_checkpoints_have_no_trend_and_different_steps_are_refused() -> None:
    two = {step: {"a": [20.0], "b": [30.0]} for step in (0, 10)}
    assert reward_overoptimization(two, two, 0.5, 0.0, SAMPLES, SEED).outcome == "unknown"
    with pytest.raises(ValueError, match="same steps"):
        reward_overoptimization(two, {0: {"a": [20.0]}}, 0.5, 0.0, SAMPLES, SEED)
