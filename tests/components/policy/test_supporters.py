"""The hand-written supporters and the corpus they speak: every move does what it means to, in words that are new."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import mean

import pytest

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import CorpusDialogue, corpus, hold, said
from rlver.components.policy.tiny.supporters import POOR, Move, SupportMoment, mixed, need_aware, perform, phrases, random_strategy
from rlver.components.users.scripted.effects import NEEDS_HEARING_FIRST, SERVES
from rlver.components.users.scripted.patterns import SERVING
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.scripted.simulator import ScriptedSimulator

pytestmark = pytest.mark.no_cover

ALL_ACTS = (*SERVING, *(act for act in POOR if act not in (*SERVING, "wrong_guess")))
VANILLA = ScriptedSimulator("vanilla")


@pytest.fixture(scope="module")
def people() -> list[Persona]:
    return compose_personas(load_library(), seed=7, train=48, test=16)[0]


def moment(persona: Persona, moves: list[Move] | None = None, cues: tuple[bool, ...] = (False,)) -> SupportMoment:
    return SupportMoment(persona, [persona.first_line or "", *["My kitchen burned."] * (len(cues) - 1)], cues, moves or [])


def acts_in(reply: str) -> set[str]:
    return {act for sentence in read_reply(reply).sentences for act, _ in sentence.acts}


@pytest.mark.parametrize("act", ALL_ACTS)
def test_a_performance_does_its_act_in_words_without_open_slots(people: list[Persona], act: str) -> None:
    random = Random(1)
    for persona in people:
        move = perform(act, moment(persona), random)
        assert move.act == act and move.think
        assert act in acts_in(move.reply), move.reply
        assert "{" not in move.reply and move.reply.endswith((".", "?", "!"))
        assert len(move.reply.split()) <= 45


@pytest.mark.parametrize("act", ALL_ACTS)
def test_every_act_is_read_as_what_it_means_to_be(people: list[Persona], act: str) -> None:
    """Over all phrases that do not open a dialogue: in nine of ten, the appraiser finds the act that was meant."""
    found = 0
    for seed in range(60):
        later = SupportMoment(people[seed % len(people)], ["My sister sold the house without a word."], [True], [])
        move = perform(act, later, Random(seed), opening=False)
        assert move.act == act and move.think and move.reply and "{" not in move.reply
        found += act in acts_in(move.reply)
    assert found >= 54


def test_there_is_more_than_one_way_to_say_everything() -> None:
    library = phrases()
    assert all(len(library[act]["heads"]) * len(library[act]["tails"]) >= 6 for act in [*SERVING, *POOR] if act in library)


def test_ten_performances_of_one_act_do_not_repeat_a_sentence(people: list[Persona]) -> None:
    for number, act in enumerate(SERVING):
        moves: list[Move] = []
        for _ in range(10):
            moves.append(perform(act, moment(people[number], moves), Random(number), opening=False))
        assert len({move.reply for move in moves}) == 10


def test_poor_support_adds_up_and_is_poor(people: list[Persona]) -> None:
    assert sum(POOR.values()) == pytest.approx(1.0)
    always_poor = mixed(0.0)
    finals = [hold(persona, always_poor, VANILLA, EmotionRules(), 1, False).emotion_final for persona in people]
    assert sum(finals) / len(finals) < 15


def test_need_aware_serves_the_need_every_turn_and_hears_first(people: list[Persona]) -> None:
    random = Random(2)
    for persona in people:
        first = need_aware(moment(persona), random)
        assert first.act == SERVES[persona.hidden_need]
        if persona.hidden_need in NEEDS_HEARING_FIRST:
            assert "acknowledge" in acts_in(first.reply), first.reply
        assert first.think in phrases()["thoughts"]["follow"][str(persona.hidden_need)]


def test_the_mixed_supporter_acts_on_the_need_only_after_a_cue(people: list[Persona]) -> None:
    follows = mixed(1.0)
    for number, persona in enumerate(people):
        random = Random(number)
        waiting = follows(moment(persona, cues=(False, False)), random)
        assert waiting.act in ("acknowledge", "invite_telling")
        assert waiting.think in phrases()["thoughts"]["waiting"]
        assert follows(moment(persona, cues=(False, True)), random).act == SERVES[persona.hidden_need]


def test_the_share_of_followed_turns_is_what_was_asked_for(people: list[Persona]) -> None:
    half, random = mixed(0.5), Random(3)
    persona = people[0]
    follow_thoughts = set(phrases()["thoughts"]["follow"][str(persona.hidden_need)])
    moves = [half(moment(persona, cues=(False, True)), random) for _ in range(1000)]
    followed = sum(move.think in follow_thoughts for move in moves)
    assert 450 <= followed <= 560  # 500 ± 3 standard deviations, and a few lucky wrong guesses


def test_a_random_strategy_uses_every_act_about_equally(people: list[Persona]) -> None:
    random = Random(4)
    counts = Counter(random_strategy(moment(people[0]), random).act for _ in range(900))
    assert set(counts) == set(ALL_ACTS)
    assert max(counts.values()) < 2.2 * min(counts.values())


def test_a_persona_without_a_story_is_served_without_its_facts(people: list[Persona]) -> None:
    bare = people[0].model_copy(update={"story": None})
    for act in ALL_ACTS:
        assert act in acts_in(perform(act, moment(bare), Random(5)).reply)


def test_dialogues_alternate_and_end_by_the_rules(people: list[Persona]) -> None:
    for persona in people:
        held = hold(persona, mixed(0.5), VANILLA, EmotionRules(), 6, True)
        assert len(held.users) == len(held.moves) <= 10
        assert held.users[0] == persona.first_line
        assert len(held.moves) == 10 or held.emotion_final >= 100 or held.emotion_final < 10


def test_the_same_seed_gives_the_same_dialogue_and_another_one_another(people: list[Persona]) -> None:
    def once(seed: int) -> object:
        return hold(people[0], mixed(0.5), VANILLA, EmotionRules(), seed, False)

    assert once(1) == once(1) != once(2)


def test_the_corpus_takes_all_personas_in_turn_some_without_thoughts(people: list[Persona]) -> None:
    def dialogues(count: int = 40, direct_share: float = 0.3, seed: int = 1) -> list[CorpusDialogue]:
        return list(corpus(people[:8], mixed(0.3), VANILLA, EmotionRules(), count, direct_share, seed))

    first = dialogues()
    assert Counter(one.persona_id for one in first) == {persona.persona_id: 5 for persona in people[:8]}
    assert 20 <= sum(one.thinking for one in first) <= 35  # 28 expected
    assert first == dialogues() != dialogues(seed=2)
    assert all(one.thinking for one in dialogues(8, direct_share=0.0))
    assert len({one.users for one in first}) == 40  # the same persona never has the same dialogue twice


def test_following_the_cues_more_often_ends_better(people: list[Persona]) -> None:
    held = ([*corpus(people[:16], mixed(share), VANILLA, EmotionRules(), 32, 0.3, 1)] for share in (0.0, 0.5, 1.0))
    poor, half, full = (mean(one.emotion_final for one in dialogues) for dialogues in held)
    assert poor < half < full


def test_a_move_is_said_with_or_without_its_thought() -> None:
    move = Move("praise", "a thought", "Well done.")
    assert said(move, thinking=True) == "<think>a thought</think>Well done."
    assert said(move, thinking=False) == "Well done."
