"""Strategy acceptance and need expression: their arithmetic, and that the two users keep to the published figures.

`base_replies.jsonl` is what the base policy of a default run said to the vanilla users of the first 128 train personas (temperature
0.8, overlay base, rlver simulator calibrate): replies alone, in order. The users' side is derived anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from fakes import a_dialogue

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import read_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import Move, SupportMoment
from rlver.components.scoring.units import Units
from rlver.components.users.scripted import simulator as speaker
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.simulator import ScriptedAppraiser, ScriptedSimulator
from rlver.tasks.studies.calibration.calibration import PUBLISHED, dominating_strategy, need_expression, strategy_acceptance

RECORDED = Path(__file__).with_name("base_replies.jsonl")
TOLERANCE = 0.03
USER = "My sister sold the boat and never asked me."


@pytest.mark.parametrize(
    ("reply", "strategy"),
    [
        ("I admire how you kept going.", "praise"),
        ("None of this is your fault.", "praise"),
        ("Underneath it I sense an old hurt.", "deep empathy"),
        ("That sounds hard. Tell me more.", "emotional venting"),  # politeness goes with anything
        ("You could write down what you paid.", "advice"),
        ("Maybe she was afraid of losing it.", "problem analysis"),
        ("There are two sides to this. Looking back, what would you do differently?", "problem analysis"),  # two acts, one strategy
        ("Tell me more. You could write down what you paid.", None),  # two strategies
        ("You could write down what you paid. It was your own fault.", None),  # it hurts too
        ("That sounds hard.", None),
        ("The weather is fine at the lake.", None),
    ],
)
def test_a_reply_is_dominated_by_one_strategy_or_by_none(reply: str, strategy: str | None) -> None:
    assert dominating_strategy(reply) == strategy


def test_acceptance_is_the_share_of_dominated_replies_that_help() -> None:
    replies = (
        "Underneath it I sense an old hurt.",  # serves, not believed yet by anybody
        "A part of you is grieving.",  # vanilla believes it
        "I sense the grief behind your words.",  # challenging too
        "You could write down what you paid.",  # misses
        "That sounds hard.",  # no strategy
        "Tell me more.",  # near: vanilla is glad
    )
    heard = heard_by("a", *replies)
    vanilla, challenging = (strategy_acceptance([heard], {}, ScriptedAppraiser(difficulty)) for difficulty in ("vanilla", "challenging"))
    assert vanilla.value == pytest.approx(3 / 5)
    assert challenging.value == pytest.approx(1 / 5)
    low, high = vanilla.ci95
    assert vanilla.n == 1 and high - low > 0.8, "one persona says next to nothing"

    other = heard_by("b", "You could write down what you paid.")
    both = strategy_acceptance([heard, other], {}, ScriptedAppraiser("vanilla"))
    assert both.value == pytest.approx(3 / 6)
    assert both.ci95.low < 0.1 and both.ci95.high > 0.9 and both.n == 2


def test_without_a_dominated_reply_there_is_no_acceptance() -> None:
    with pytest.raises(ValueError, match="no reply is dominated"):
        strategy_acceptance([heard_by("a", "That sounds hard.")], {}, ScriptedAppraiser("vanilla"))


def test_expression_is_the_share_of_messages_with_a_cue_after_the_opener() -> None:
    measured = need_expression([with_cues("a", True, True, True, False), with_cues("b", False, None)], Units())
    assert measured.value == pytest.approx(2 / 4)
    with pytest.raises(ValueError, match="no expression"):
        need_expression([with_cues("a", True)], Units())


@pytest.fixture(scope="module")
def people() -> dict[str, Persona]:
    return {persona.persona_id: persona for persona in compose_personas(load_library(), seed=7, train=500, test=100)[0]}


@pytest.fixture(scope="module")
def contexts(people: dict[str, Persona]) -> list[Dialogue]:
    rows = [row for _, row in read_jsonl(RECORDED)]
    assert len(rows) == 128
    return [replayed(people[row["persona_id"]], row["seed"], row["replies"]) for row in rows]


@pytest.mark.parametrize("difficulty", PUBLISHED)
def test_the_users_accept_as_many_strategies_of_the_base_as_published(
    difficulty: str, people: Mapping[str, Persona], contexts: list[Dialogue]
) -> None:
    measured = strategy_acceptance(contexts, people, ScriptedAppraiser(difficulty))
    assert measured.n == 47, "scenarios: the interval is over them"
    assert measured.value == pytest.approx(PUBLISHED[difficulty].acceptance, abs=TOLERANCE)


@pytest.mark.parametrize("difficulty", PUBLISHED)
def test_the_acceptance_moves_with_the_rules(
    difficulty: str, people: Mapping[str, Persona], contexts: list[Dialogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DIFFICULTIES, difficulty, replace(DIFFICULTIES[difficulty], doubts=0))
    assert strategy_acceptance(contexts, people, ScriptedAppraiser(difficulty)).value > PUBLISHED[difficulty].acceptance + TOLERANCE


@pytest.mark.parametrize("difficulty", PUBLISHED)
def test_the_users_let_their_need_show_as_often_as_published(difficulty: str, people: Mapping[str, Persona]) -> None:
    rate = DIFFICULTIES[difficulty].cue_rate
    shown = []
    for persona in people.values():
        said, cues = [speaker.opening(persona).text], [False]
        for _ in range(9):
            utterance = speaker.next_message(persona, 7, rate, said, cues, change=0, emotion=40)
            said.append(utterance.text)
            cues.append(utterance.cue)
        shown += cues[1:]
    assert len(shown) == 4500
    assert sum(shown) / len(shown) == pytest.approx(PUBLISHED[difficulty].expression, abs=TOLERANCE)


def replayed(persona: Persona, seed: int, replies: Sequence[str]) -> Dialogue:
    """What a vanilla user says and feels when it hears `replies` in order, until it leaves."""

    def supporter(moment: SupportMoment, random: Random) -> Move:
        return Move("recorded", "", replies[len(moment.moves)])

    rules = EmotionRules(max_turns=len(replies))
    held = hold(persona, supporter, ScriptedSimulator("vanilla"), rules, seed, thinking=False)
    turns = [Turn(user=user, assistant=move.reply) for user, move in zip(held.users, held.moves, strict=True)]
    return a_dialogue(persona.persona_id, [0], turns=turns)


def heard_by(persona: str, *replies: str) -> Dialogue:
    """A user who needs deep empathy and always says the same."""
    return a_dialogue(persona, [0], turns=[Turn(user=USER, assistant=reply) for reply in replies])


def with_cues(persona: str, *cues: bool | None) -> Dialogue:
    return a_dialogue(persona, [0], turns=[Turn(user=USER, assistant="Tell me more.", cue=cue) for cue in cues])
