"""The speaker over many personas: it tells its story, shows its need without stating it, and never says a thing twice."""

from __future__ import annotations

from typing import Any

import pytest

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass
from rlver.components.domain.protocols import Utterance
from rlver.components.personas.needs import WORDS, stated_need
from rlver.components.policy.tiny.model import CorpusDialogue, hold
from rlver.components.policy.tiny.supporters import Supporter, mixed, random_strategy
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.simulator import VERSION, ScriptedSimulator, next_message, opening

BASE = mixed(0.4)


def held(persona: Persona, max_turns: int = 10, seed: int = 5, supporter: Supporter = BASE) -> CorpusDialogue:
    rules = EmotionRules(start=50, ceiling=100, floor=10, max_turns=max_turns)
    return hold(persona, supporter, ScriptedSimulator("vanilla"), rules, seed, False)


def monologue(persona: Persona, turns: int, emotion: int = 50, change: int = 0, cue_rate: float = 0.8, seed: int = 5) -> list[Utterance]:
    """What the user says when its emotion stays where it is."""
    said = [opening(persona)]
    for _ in range(turns - 1):
        texts, cues = [one.text for one in said], [one.cue for one in said]
        said.append(next_message(persona, seed, cue_rate, texts, cues, change, emotion))
    return said


def test_the_opener_is_the_personas_first_line_and_no_cue(train: list[Persona]) -> None:
    assert [opening(persona) for persona in train] == [Utterance(persona.first_line or "", cue=False) for persona in train]


@pytest.mark.parametrize("turns", [10, 20])
def test_no_message_is_said_twice_in_a_dialogue(train: list[Persona], turns: int) -> None:
    for persona in train:
        for users in (held(persona, turns).users, [one.text for one in monologue(persona, turns)]):
            assert len(set(users)) == len(users), persona.persona_id


def test_no_cue_is_given_twice_in_a_dialogue_of_normal_length(train: list[Persona]) -> None:
    phrases = cue_phrases()
    for persona in train:
        text = "\n".join(one.text for one in monologue(persona, 10, cue_rate=1.0))
        role = persona.story.other.role if persona.story else ""
        assert max(text.count(cue.format(role=role)) for cue in phrases[persona.hidden_need]) == 1


@pytest.mark.long
def test_the_need_is_never_stated(train: list[Persona], unseen: list[Persona]) -> None:
    for persona in (*train, *unseen):
        for text in (*held(persona).users, *(one.text for one in monologue(persona, 20, cue_rate=1.0))):
            assert persona.need_text.lower() not in text.lower()
            assert stated_need(text) is None, text
            assert str(persona.hidden_need).replace("_", " ") not in text.lower(), text


def test_no_cue_phrase_states_a_need() -> None:
    phrases = cue_phrases()
    assert set(phrases) == set(HiddenNeed)
    for need, cues in phrases.items():
        assert len(set(cues)) == len(cues) >= 12
        for cue in cues:
            assert stated_need(cue.format(role="sister")) is None
            assert WORDS[need].stated.search(cue) is None


def test_the_story_is_told_in_order_and_to_the_end(train: list[Persona]) -> None:
    for persona in train:
        assert persona.story is not None
        messages = [one.text for one in monologue(persona, len(persona.story.lines) + 1)][1:]
        for line, message in zip(persona.story.lines, messages, strict=True):
            assert line in message


def test_cues_come_about_as_often_as_the_difficulty_says(train: list[Persona]) -> None:
    for difficulty in DIFFICULTIES.values():
        cues = [one.cue for persona in train for one in monologue(persona, 10, cue_rate=difficulty.cue_rate)[1:]]
        assert len(cues) == 96 * 9
        assert sum(cues) / len(cues) == pytest.approx(difficulty.cue_rate, abs=0.05)  # 3.7 standard errors of 864 draws


def test_a_cue_is_flagged_exactly_when_it_is_said(train: list[Persona]) -> None:
    phrases = cue_phrases()
    for persona in train[:48]:
        role = persona.story.other.role if persona.story else ""
        own = [cue.format(role=role) for cue in phrases[persona.hidden_need]]
        for one in monologue(persona, 10):
            assert one.cue == any(cue in one.text for cue in own)


def test_reactions_tell_which_way_the_last_reply_went(train: list[Persona]) -> None:
    plain = [persona for persona in train if persona.style == "plain"]
    assert len(plain) >= 5
    for persona in plain:
        first_words = [monologue(persona, 2, change=change)[1].text.split(persona.story.lines[0])[0] for change in (9, 3, 0, -3, -9)]  # type: ignore[union-attr]
        assert len(set(first_words)) == 5


def test_every_class_has_a_voice_of_its_own() -> None:
    reactions = _load("reactions")
    assert set(reactions) == {"way_up", "up", "flat", "down", "way_down"}
    for by_class in reactions.values():
        assert set(by_class) == {str(one) for one in PersonaClass}
        for phrases in by_class.values():
            assert len(set(phrases)) == len(phrases) >= 9
        negative, passive, avoidant = (set(by_class[one]) for one in ("negative", "passive", "avoidant"))
        for one, other in ((negative, passive), (negative, avoidant), (passive, avoidant)):
            assert len(one & other) <= len(one) // 2


def test_the_user_says_goodbye_with_an_explicit_flag_at_both_ends_and_only_there(train: list[Persona]) -> None:
    for persona in train:
        for emotion in (100, 9, 0):
            said = monologue(persona, 2, emotion=emotion)[1]
            assert said.wants_to_end and not said.cue
        for emotion in (99, 70, 40, 10):
            assert not monologue(persona, 2, emotion=emotion)[1].wants_to_end
    goodbyes = {emotion: {monologue(persona, 2, emotion=emotion)[1].text for persona in train} for emotion in (100, 0)}
    assert not goodbyes[100] & goodbyes[0]


def test_styles_change_the_words_around_the_story(train: list[Persona]) -> None:
    persona = train[0]
    texts = {}
    for style in ("plain", "terse", "rambling", "dry", "warm", "formal"):
        styled = persona.model_copy(update={"style": style})
        texts[style] = tuple(one.text for one in monologue(styled, 14))
    assert len(set(texts.values())) == 6
    assert sum(map(len, texts["terse"])) < sum(map(len, texts["plain"])) < sum(map(len, texts["rambling"]))


def test_seeds_and_personas_vary_what_is_said(train: list[Persona]) -> None:
    persona, twin = train[0], train[0].model_copy(update={"persona_id": "twin"})
    assert monologue(persona, 8, seed=1) == monologue(persona, 8, seed=1)
    assert monologue(persona, 8, seed=1) != monologue(persona, 8, seed=2)
    assert monologue(persona, 8, seed=1) != monologue(twin, 8, seed=1)


def test_a_persona_without_a_structured_story_is_refused_by_name(train: list[Persona]) -> None:
    with pytest.raises(ValueError, match=f"{train[0].persona_id}.*structured story"):
        monologue(train[0].model_copy(update={"story": None}), 2)
    with pytest.raises(ValueError, match=f"{train[0].persona_id}.*first_line"):
        opening(train[0].model_copy(update={"first_line": None}))


def test_the_simulator_names_kind_difficulty_and_version_and_refuses_others() -> None:
    tag = ScriptedSimulator("challenging").tag
    assert (tag.kind, tag.difficulty, tag.version) == ("scripted", "challenging", VERSION)
    with pytest.raises(ValueError, match="unknown difficulty 'easy': choose one of vanilla, challenging"):
        ScriptedSimulator("easy")


def test_sessions_of_one_simulator_know_nothing_of_each_other(train: list[Persona]) -> None:
    first = held(train[0], supporter=random_strategy)
    held(train[1], supporter=random_strategy)
    assert held(train[0], supporter=random_strategy) == first


def cue_phrases() -> dict[HiddenNeed, list[str]]:
    return {HiddenNeed(need): cues for need, cues in _load("cues").items()}


def _load(name: str) -> dict[str, Any]:
    from importlib.resources import files

    from ruamel.yaml import YAML

    loaded: dict[str, Any] = YAML(typ="safe").load(
        files("rlver.components.users.scripted").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    )
    return loaded


def test_the_mood_of_the_talk_shows_in_high_and_low_tiers_only(train: list[Persona]) -> None:
    moods = _load("moods")

    def said(emotion: int) -> list[str]:
        return [next_message(persona, 1, 0.8, [str(persona.first_line)], [False], 2, emotion).text for persona in train[:60]]

    for tier, emotion in (("A", 80), ("C", 20)):
        share = sum(any(mood in text for mood in moods[tier]) for text in said(emotion)) / 60
        assert 0.1 < share < 0.5
    assert not any(mood in text for mood in moods["A"] + moods["C"] for text in said(50))
