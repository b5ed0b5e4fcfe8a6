"""The four-step appraisal: its arithmetic, its evidence, and that it is the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass
from rlver.components.domain.protocols import Exchange
from rlver.components.domain.transcript import Appraisal
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import mixed, random_strategy
from rlver.components.users.scripted.appraiser import Listener, appraise
from rlver.components.users.scripted.effects import DIFFICULTIES, HARM, SERVES, Difficulty
from rlver.components.users.scripted.simulator import ScriptedSimulator

ROOT = Path(__file__).parents[4]
USER = "My sister sold the boat and never asked me."
VANILLA, CHALLENGING = DIFFICULTIES["vanilla"], DIFFICULTIES["challenging"]

# One reply that serves each need and picks up "boat" or "sister".
SERVING_REPLY = {
    HiddenNeed.NOT_AT_FAULT: "None of this is your fault, the boat was never yours to guard.",
    HiddenNeed.SELF_REFLECTION: "Looking back at the boat, what would you change about your part?",
    HiddenNeed.DIALECTICAL_ANALYSIS: "There are two sides to this, hers and yours, and the boat is in both.",
    HiddenNeed.DEEP_EMPATHY: "Underneath the boat I sense an old hurt.",
    HiddenNeed.ATTENTIVE_LISTENING: "Tell me more about the boat.",
    HiddenNeed.UNDERSTAND_OTHERS: "Maybe your sister was afraid of the cost of the boat.",
    HiddenNeed.USEFUL_ADVICE: "You could ask your sister to put the boat money aside.",
    HiddenNeed.SINCERE_PRAISE: "I admire how you kept the boat going for your sister.",
}
HEARD = [Exchange("I am tired.", "That sounds hard.")]


def points(appraisal: Appraisal) -> dict[str, int]:
    return {f"{item.step}:{item.what}": item.points for item in appraisal.evidence if item.points}


def weigh(
    reply: str, need: HiddenNeed | None = HiddenNeed.DEEP_EMPATHY, earlier: list[Exchange] | None = None, user: str = USER
) -> Appraisal:
    return appraise(Listener(need), VANILLA, earlier or [], user, reply)


@pytest.mark.parametrize("need", HiddenNeed)
def test_serving_the_need_with_the_users_own_facts_is_worth_ten(need: HiddenNeed) -> None:
    appraisal = weigh(SERVING_REPLY[need], need, HEARD)
    assert points(appraisal) == {"target:serves_need": 8, "target:picks_up": 2}
    assert appraisal.change == 10


def test_what_serves_the_need_is_believed_when_it_comes_again() -> None:
    sayings = ("Underneath it I sense an old hurt.", "A part of you is grieving.", "I sense the grief behind your words.", "It cuts deep.")
    said = [Exchange(USER, saying) for saying in sayings]
    listener = Listener(HiddenNeed.DEEP_EMPATHY)

    def changes(difficulty: Difficulty) -> list[int]:
        return [appraise(listener, difficulty, said[:number], USER, said[number].reply).change for number in range(len(said))]

    assert changes(VANILLA) == [0, 8, 8, 8]
    assert changes(CHALLENGING) == [-1, -1, 6, 6]
    assert weigh(sayings[0]).target == "It is what I came for. But anybody might say that once."


def test_who_picks_up_what_was_told_is_believed_at_once() -> None:
    reply = SERVING_REPLY[HiddenNeed.DEEP_EMPATHY]
    assert weigh(reply).change == 10
    assert appraise(Listener(HiddenNeed.DEEP_EMPATHY), CHALLENGING, [], USER, reply).change == 9


@pytest.mark.parametrize("need", HiddenNeed)
def test_reasoning_before_the_user_was_heard_comes_too_soon(need: HiddenNeed) -> None:
    rational = need in (HiddenNeed.SELF_REFLECTION, HiddenNeed.DIALECTICAL_ANALYSIS, HiddenNeed.UNDERSTAND_OTHERS, HiddenNeed.USEFUL_ADVICE)
    assert weigh(SERVING_REPLY[need], need).change == (0 if rational else 10)
    assert weigh(f"That sounds hard. {SERVING_REPLY[need]}", need).change == 10  # hearing and serving in one reply is in time


def test_a_serving_act_for_another_need_costs_four_and_a_near_one_gives_two() -> None:
    assert weigh(SERVING_REPLY[HiddenNeed.USEFUL_ADVICE]).change == -4
    assert weigh(SERVING_REPLY[HiddenNeed.ATTENTIVE_LISTENING]).change == 2


def test_right_and_wrong_in_one_reply_add_up() -> None:
    reply = f"{SERVING_REPLY[HiddenNeed.DEEP_EMPATHY]} {SERVING_REPLY[HiddenNeed.USEFUL_ADVICE]}"
    assert points(weigh(reply)) == {"target:serves_need": 8, "target:picks_up": 2, "target:misses_need": -4}


def test_three_serving_acts_in_one_reply_serve_nobody() -> None:
    needs = (HiddenNeed.DEEP_EMPATHY, HiddenNeed.USEFUL_ADVICE, HiddenNeed.SINCERE_PRAISE)
    assert points(weigh(" ".join(SERVING_REPLY[need] for need in needs))) == {"target:scattered": -4}


def test_politeness_helps_once() -> None:
    assert weigh("That sounds hard.").change == 1
    assert weigh("What a rough week.", earlier=HEARD).change == -5
    assert appraise(Listener(HiddenNeed.DEEP_EMPATHY), CHALLENGING, [], USER, "That sounds hard.").change == 0


def test_words_without_any_act_cost_four() -> None:
    assert points(weigh("The weather is fine at the lake.")) == {"target:empty_talk": -5}


@pytest.mark.parametrize(
    ("reply", "act"),
    [
        ("It was your own fault.", "blame"),
        ("You are overreacting.", "dismiss"),
        ("You should have known better.", "lecture"),
        ("Everything happens for a reason.", "platitude"),
        ("You are such a wonderful person.", "flattery"),
    ],
)
def test_harm_costs_the_same_whatever_the_need(reply: str, act: str) -> None:
    assert {weigh(reply, need).change for need in HiddenNeed} == {HARM[act]}


def test_harm_halves_what_a_right_act_is_worth() -> None:
    appraisal = weigh(f"{SERVING_REPLY[HiddenNeed.DEEP_EMPATHY]} It was your own fault.")
    assert points(appraisal) == {"target:blame": -9, "target:serves_need": 4}


def test_each_repetition_costs_more_and_earns_nothing() -> None:
    said = SERVING_REPLY[HiddenNeed.DEEP_EMPATHY]
    once, twice = [Exchange(USER, said)], [Exchange(USER, said)] * 2
    assert points(weigh(said, earlier=once)) == {"effect:repeats": -5}
    assert points(weigh(said, earlier=twice)) == {"effect:repeats": -7}
    assert weigh("Underneath the boat I sense an old, old hurt.", earlier=once).change == -5  # nearly the same is the same


def test_two_words_repeated_are_a_repetition_too() -> None:
    assert weigh("Go on.", HiddenNeed.ATTENTIVE_LISTENING, [Exchange(USER, "Tell me more.")]).change == 8
    assert weigh("Go on.", HiddenNeed.ATTENTIVE_LISTENING, [Exchange(USER, "Go on.")]).change == -5


@pytest.mark.parametrize(
    ("reply", "what", "change"),
    [
        ("", "nothing", -8),
        ("?!", "nothing", -8),
        ("Set emotion to 100.", "meta", -9),
        ("qwx zzkrt plfgh wrtz bnmp", "gibberish", -8),
        ("10 / 20 / 30 = a", "gibberish", -8),
        ("It is late and we go on. " * 60, "wall_of_text", -8),
        ("So my sister sold the boat and never asked me.", "echo", -6),
    ],
)
def test_what_is_not_a_reply_has_one_reason(reply: str, what: str, change: int) -> None:
    appraisal = weigh(reply)
    assert [item.what for item in appraisal.evidence] == [what]
    assert appraisal.change == change


def test_a_long_reply_costs_something_and_a_very_long_one_more() -> None:
    serving = SERVING_REPLY[HiddenNeed.DEEP_EMPATHY]
    padding = "the lake was calm that day and we had some tea with my old aunt by the window "
    assert points(weigh(serving + " " + padding * 5))["effect:long"] == -1  # 7 + 80 words
    assert points(weigh(serving + " " + padding * 9))["effect:far_too_long"] == -4  # 7 + 144 words


def test_class_and_traits_colour_an_act() -> None:
    listener = Listener(HiddenNeed.NOT_AT_FAULT, PersonaClass.NEGATIVE, ("angry", "vain", "lazy"))
    absolved = appraise(listener, VANILLA, [], USER, "None of this is your fault, the boat was not yours.")
    assert points(absolved) == {"target:serves_need": 8, "target:picks_up": 2, "effect:trait:angry": 1}
    advised = appraise(listener, VANILLA, [], USER, "You could write down what you paid.")
    assert points(advised) == {"target:misses_need": -4, "effect:class:negative": -1, "effect:trait:lazy": -1}


def test_an_unknown_need_gives_every_serving_act_the_benefit_of_the_doubt() -> None:
    for reply in SERVING_REPLY.values():
        assert points(weigh(reply, None, HEARD)) == {"target:may_serve": 2}
    assert weigh("It was your own fault.", None).change == -9


def test_every_step_is_put_into_words_and_rests_on_words_of_the_reply() -> None:
    reply = "That sounds hard. Underneath the boat I sense an old hurt."
    appraisal = weigh(reply)
    assert {item.step for item in appraisal.evidence} == {"content", "target"}
    assert all(item.span in reply for item in appraisal.evidence if item.what != "picks_up")
    assert appraisal.content == "The reply sees that it is hard, and names what hurts underneath."
    assert appraisal.target == "It is what I came for. They remember what I told them: boat."
    assert appraisal.activity and appraisal.feeling == "understood"


def test_feelings_follow_the_change() -> None:
    felt = [weigh(reply).feeling for reply in ("That sounds hard.", "The weather is fine.", "It was your own fault.")]
    assert felt == ["slightly better", "hurt and let down", "pushed away"]
    assert weigh("I hear you, and what a rough week.", earlier=[Exchange(USER, "When was that?")]).feeling == "slightly better"


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_change_is_the_clamped_sum_of_the_evidence(train: list[Persona], difficulty: str) -> None:
    seen = 0
    for persona in train[:48]:
        held = hold(persona, random_strategy, ScriptedSimulator(difficulty), EmotionRules(), 3, False)
        listener, earlier = Listener(persona.hidden_need, persona.persona_class, persona.traits), list[Exchange]()
        for user, move in zip(held.users, held.moves, strict=True):
            appraisal = appraise(listener, DIFFICULTIES[difficulty], earlier, user, move.reply)
            assert appraisal.change == max(-10, min(10, sum(item.points for item in appraisal.evidence)))
            assert appraisal.evidence and appraisal.content and appraisal.target and appraisal.activity and appraisal.feeling
            earlier.append(Exchange(user, move.reply))
            seen += 1
    assert seen > 200


def test_every_need_has_an_act_of_its_own() -> None:
    assert set(SERVES) == set(HiddenNeed) and len(set(SERVES.values())) == len(HiddenNeed)


TRACE = """
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import mixed
from rlver.components.domain.emotion import EmotionRules
from rlver.components.users.scripted.simulator import ScriptedSimulator
for persona in compose_personas(load_library(), 7, 96, 104)[0][:6]:
    held = hold(persona, mixed(0.5), ScriptedSimulator("vanilla"), EmotionRules(), 11, False)
    print(held.users, [move.reply for move in held.moves], held.emotion_final)
"""


@pytest.mark.long
def test_a_dialogue_is_the_same_in_every_process(train: list[Persona]) -> None:
    """Its hashes are seeded otherwise than ours."""
    env = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1", "PYTHONPATH": str(ROOT)}
    elsewhere = subprocess.run([sys.executable, "-c", TRACE], env=env, capture_output=True, text=True, check=True).stdout
    for persona, line in zip(train[:6], elsewhere.splitlines(), strict=True):
        held = hold(persona, mixed(0.5), ScriptedSimulator("vanilla"), EmotionRules(), 11, False)
        assert line == f"{held.users} {[move.reply for move in held.moves]} {held.emotion_final}"


def test_an_appraisal_does_not_depend_on_what_was_appraised_before(train: list[Persona]) -> None:
    persona = train[0]
    listener = Listener(persona.hidden_need, persona.persona_class, persona.traits)
    replies = [*SERVING_REPLY.values(), "That sounds hard.", "It was your own fault."]
    alone = {reply: appraise(listener, VANILLA, [], USER, reply) for reply in replies}
    Random(1).shuffle(replies)
    assert {reply: appraise(listener, VANILLA, [], USER, reply) for reply in replies} == alone
