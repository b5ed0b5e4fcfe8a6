"""The warm-start corpus: real dialogues with the real scripted user, by supporters who act on what was shown."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import mean

import pytest
from fakes import people

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import RATIONAL_NEEDS
from rlver.components.policy.tiny.model import CorpusDialogue, corpus, hold, said
from rlver.components.policy.tiny.supporters import (
    POOR,
    Move,
    Supporter,
    SupportMoment,
    mixed,
    need_aware,
    perform,
    phrases,
    random_strategy,
)
from rlver.components.users.scripted.effects import SERVES
from rlver.components.users.scripted.patterns import SERVING
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.scripted.simulator import ScriptedSimulator

pytestmark = pytest.mark.no_cover

SIMULATOR, RULES = ScriptedSimulator("vanilla"), EmotionRules()
PERSONAS = people()[0]


def held(supporter: Supporter, count: int = 32, seed: int = 1, direct_share: float = 0.3) -> list[CorpusDialogue]:
    return list(corpus(PERSONAS, supporter, SIMULATOR, RULES, count, direct_share, seed))


def test_everybody_speaks_in_turn_some_without_thoughts() -> None:
    dialogues = held(mixed(0.3), 48)
    assert Counter(dialogue.persona_id for dialogue in dialogues) == Counter({persona.persona_id: 3 for persona in PERSONAS})
    assert 0 < sum(not dialogue.thinking for dialogue in dialogues) < 30
    assert all(dialogue.thinking for dialogue in held(mixed(0.3), 8, direct_share=0.0))


def test_the_same_seed_gives_the_same_corpus() -> None:
    assert held(mixed(0.3), 8) == held(mixed(0.3), 8) != held(mixed(0.3), 8, seed=2)


def test_turns_alternate_and_end_by_the_rules() -> None:
    for dialogue in held(mixed(0.5)):
        assert len(dialogue.users) == len(dialogue.moves) <= RULES.max_turns
        assert len(dialogue.moves) == RULES.max_turns or not 10 <= dialogue.emotion_final < 100


def test_following_the_cues_more_often_ends_better() -> None:
    poor, half, full = (mean(dialogue.emotion_final for dialogue in held(mixed(share))) for share in (0.0, 0.5, 1.0))
    assert poor < half < full


def test_who_sees_the_need_does_far_better_than_who_acts_at_random() -> None:
    aware, random = (mean(dialogue.emotion_final for dialogue in held(supporter, 16)) for supporter in (need_aware, random_strategy))
    assert aware > random + 40


def test_before_any_cue_nobody_acts_on_the_need() -> None:
    for persona in PERSONAS:
        for seed in range(20):
            move = mixed(1.0)(SupportMoment(persona, ["Something happened."], [False], []), Random(seed))
            assert move.act in ("acknowledge", "invite_telling")


def test_reasoning_comes_after_hearing() -> None:
    for persona in PERSONAS:
        opening = need_aware(SupportMoment(persona, ["My sister left the house."], [True], []), Random(1))
        assert opening.act == SERVES[persona.hidden_need]
        acts = {act for sentence in read_reply(opening.reply).sentences for act, _ in sentence.acts}
        if persona.hidden_need in RATIONAL_NEEDS:
            assert acts & {"acknowledge", "comfort"}, opening.reply


@pytest.mark.parametrize("act", [*SERVING, *(act for act in POOR if act != "wrong_guess")])
def test_every_act_is_read_as_what_it_means_to_be(act: str) -> None:
    """Over all phrases: in nine of ten, the appraiser finds the act that was meant."""
    found = 0
    for seed in range(60):
        persona = PERSONAS[seed % len(PERSONAS)]
        move = perform(act, SupportMoment(persona, ["My sister sold the house without a word."], [True], []), Random(seed), opening=False)
        assert move.act == act and move.think and move.reply and "{" not in move.reply
        found += act in {performed for sentence in read_reply(move.reply).sentences for performed, _ in sentence.acts}
    assert found >= 54


def test_nothing_is_said_twice_while_there_is_something_else_to_say() -> None:
    persona, moves = PERSONAS[0], list[Move]()
    for turn in range(8):
        moves.append(
            perform("praise", SupportMoment(persona, ["It was a long day at the office."], [True], moves), Random(turn), opening=False)
        )
    assert len({move.reply for move in moves}) == 8


def test_a_thought_stands_in_front_of_the_reply_or_nowhere() -> None:
    move = Move("praise", "a thought", "Well done.")
    assert said(move, thinking=True) == "<think>a thought</think>Well done."
    assert said(move, thinking=False) == "Well done."


def test_a_dialogue_depends_on_persona_and_seed() -> None:
    first, again, other = (hold(PERSONAS[1], mixed(0.3), SIMULATOR, RULES, seed, thinking=True) for seed in (1, 1, 2))
    assert first == again != other


def test_there_is_more_than_one_way_to_say_everything() -> None:
    library = phrases()
    assert all(len(library[act]["heads"]) * len(library[act]["tails"]) >= 6 for act in [*SERVING, *POOR] if act in library)
