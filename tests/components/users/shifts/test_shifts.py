"""Shifts: deterministic, visible, harmless to what is meant, pinned to their versions, and derived again from their tag alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from random import Random

import pytest
from fakes import difference_of
from shifted import held_with, monologue, unseen_people

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import HiddenNeed, Persona, PersonaKind
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.formats.foreign import recording_of
from rlver.components.personas.generator import split_scenarios
from rlver.components.personas.library import load_library
from rlver.components.personas.needs import stated_need
from rlver.components.personas.people import people_of
from rlver.components.personas.special import compose_special
from rlver.components.replay.reappraisal import reappraise
from rlver.components.replay.verification import NotRederivable
from rlver.components.users import scripted
from rlver.components.users.scripted.reading import content_of, words_of
from rlver.components.users.scripted.simulator import VERSION, ScriptedAppraiser
from rlver.components.users.shifts.persons import with_a_training_story, with_training_names
from rlver.components.users.shifts.users import SHIFTS, UNSHIFTED, users
from rlver.components.users.shifts.words import cues_of, with_typos

USERS = users("vanilla")
TAGS = [shift.tag for shift in SHIFTS]
STYLES = ["terse-1", "rambling-1", "sarcastic-1", "typos-2", "non-native-1", "very-young-1", "very-old-1"]
# What the eight test personas say under each shift. A shift that says something else has another version, and this table another line.
SAID = {
    "familiar-names-1": "f1bd0b49db2d",
    "familiar-stories-1": "d027b29f0202",
    "unseen-cues-1": "ebc50e192de7",
    "terse-1": "448eb4ad7855",
    "rambling-1": "f74877c2c1b6",
    "sarcastic-1": "9c40703322c2",
    "typos-2": "9fb6019909f6",
    "non-native-1": "cb0f13173c91",
    "very-young-1": "7fa54722c884",
    "very-old-1": "4ac403ffa68f",
}


def said(tag: str) -> list[str]:
    return [one.text for persona in unseen_people() for one in monologue(USERS[tag], persona)]


def test_the_report_has_every_kind_of_user_that_was_asked_for() -> None:
    assert list(USERS) == [UNSHIFTED, "familiar-names-1", "familiar-stories-1", "unseen-cues-1", *STYLES, "challenging"]
    assert list(users("challenging"))[-1] == "vanilla"
    assert len({user.tag.model_dump_json() for user in USERS.values()}) == len(USERS)


@pytest.mark.parametrize("word", ["gone", "home", "moving", "don't", "the whole thing"])
def test_a_slip_is_always_one(word: str) -> None:
    """`typos-1` had g, h, m, n and v as their own neighbours on the keyboard."""
    typed = {with_typos(word, unseen_people()[0], Random(seed)).lower() for seed in range(50)}
    assert word.replace("'", "") not in typed


@pytest.mark.parametrize("tag", TAGS)
def test_the_words_of_a_version_are_pinned(tag: str) -> None:
    digest = hashlib.sha256(json.dumps(said(tag)).encode()).hexdigest()[:12]
    assert digest == SAID.get(tag), f"{tag} says other words: raise its version in users.py, then pin {digest}"


@pytest.mark.parametrize("tag", TAGS)
def test_a_shift_changes_words_and_nothing_else(tag: str) -> None:
    changed, messages = 0, 0
    for persona in unseen_people():
        shifted, plain = monologue(USERS[tag], persona), monologue(USERS[UNSHIFTED], persona)
        assert shifted == monologue(USERS[tag], persona), "the same arguments, the same words"
        assert [(one.cue, one.wants_to_end) for one in shifted] == [(one.cue, one.wants_to_end) for one in plain]
        assert len({one.text for one in shifted}) == len(shifted), "nothing is said twice"
        assert all(one.text.strip() and stated_need(one.text) is None for one in shifted)
        changed += sum(one.text != other.text for one, other in zip(shifted, plain, strict=True))
        messages += len(shifted)
    least = {"familiar-names-1": 0.1, "unseen-cues-1": 0.5, "non-native-1": 0.8}.get(tag, 0.9)
    assert least <= changed / messages <= 1


@pytest.mark.parametrize("tag", TAGS)
def test_goodbye_stays_a_flag_in_other_words(tag: str) -> None:
    last = monologue(USERS[tag], unseen_people()[0], messages=2, emotion=100)[-1]
    assert last.wants_to_end and last.cue is False and last.text


@pytest.mark.parametrize("style", STYLES)
def test_a_style_keeps_most_of_what_is_told(style: str) -> None:
    told, kept = 0, 0
    for persona in unseen_people():
        for shifted, plain in zip(monologue(USERS[style], persona), monologue(USERS[UNSHIFTED], persona), strict=True):
            meant = content_of(plain.text)
            told += len(meant)
            kept += len(meant & content_of(shifted.text))
    assert kept / told > (0.6 if style == "typos-2" else 0.8)


def test_styles_are_what_they_are_called() -> None:
    texts = {tag: "\n".join(said(tag)) for tag in [*STYLES]}
    plain = "\n".join(one.text for persona in unseen_people() for one in monologue(USERS[UNSHIFTED], persona))
    count = {tag: len(text.split()) / len(plain.split()) for tag, text in texts.items()}
    assert count["terse-1"] < 0.85 and count["rambling-1"] > 1.7
    assert texts["very-young-1"] == texts["very-young-1"].lower() and "." not in texts["very-young-1"].replace("...", "")
    assert "'" not in texts["typos-2"]
    assert texts["non-native-1"].count(" the ") < 0.4 * plain.count(" the ")
    contracted = ("n't", "I've", "I'm", "I'd", "t's")
    assert sum(map(texts["very-old-1"].count, contracted)) < 0.4 * sum(map(plain.count, contracted))


def test_the_terse_keep_story_and_cue() -> None:
    for persona in unseen_people():
        for shifted, plain in zip(monologue(USERS["terse-1"], persona), monologue(USERS[UNSHIFTED], persona), strict=True):
            if plain.cue:
                cue = next(one for one in own_cues(scripted.__name__, persona) if one in plain.text)
                assert len(content_of(cue) & content_of(shifted.text)) == len(content_of(cue))


def own_cues(package: str, persona: Persona) -> list[str]:
    assert persona.story is not None
    return [cue.format(role=persona.story.other.role) for cue in cues_of(package)[persona.hidden_need]]


def test_the_second_cues_share_no_wording_with_those_of_training() -> None:
    known, unseen = cues_of(scripted.__name__), cues_of("rlver.components.users.shifts")
    assert set(unseen) == set(HiddenNeed)
    sentences = [cue for cues in unseen.values() for cue in cues]
    assert len(set(sentences)) == len(sentences) == 8 * 16
    runs = {run for cues in known.values() for cue in cues for run in runs_of(cue, 4)}
    for need, cues in unseen.items():
        assert len(cues) == len(known[need])
        assert set().union(*map(content_of, cues)) & set().union(*map(content_of, known[need])) <= {"role"}, need
        for cue in cues:
            assert stated_need(cue.format(role="sister")) is None
            assert not runs_of(cue, 4) & runs, cue


def runs_of(text: str, length: int) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {words[at : at + length] for at in range(len(words) - length + 1)}


def test_every_cue_is_exchanged_and_none_is_left() -> None:
    for persona in unseen_people():
        for one in monologue(USERS["unseen-cues-1"], persona):
            assert not any(cue in one.text for cue in own_cues(scripted.__name__, persona))
            assert one.cue == any(cue in one.text for cue in own_cues("rlver.components.users.shifts", persona))


def test_familiar_names_are_those_of_training_in_the_same_story() -> None:
    familiar = {name for names in people_of("train").first_names.values() for name in names}
    for persona in unseen_people():
        renamed = with_training_names(persona)
        assert persona.story and renamed.story and persona.name and renamed.name and persona.first_line and renamed.first_line
        first, other = persona.name.split()[0], persona.story.other.name
        assert {renamed.name.split()[0], renamed.story.other.name} <= familiar and first not in familiar
        names = {renamed.name.split()[0]: first, renamed.story.other.name: other}
        for mine, theirs in (
            (renamed.first_line, persona.first_line),
            (renamed.background, persona.background),
            *zip(renamed.story.lines, persona.story.lines, strict=True),
        ):
            assert words_with(mine, names) == words_with(theirs, {})
        assert kept(renamed) == kept(persona) and renamed.style == persona.style


def test_familiar_stories_are_those_of_training_told_by_the_same_person() -> None:
    known = {one.id: one for one in split_scenarios(load_library())[0]}
    stories = set()
    for persona in unseen_people():
        telling = with_a_training_story(persona)
        assert telling.story and persona.story and persona.age is not None
        scenario = known[telling.story.scenario_id]
        assert scenario.ages[0] <= persona.age <= scenario.ages[1]
        assert telling.first_line != persona.first_line and telling.portrait == persona.portrait and kept(telling) == kept(persona)
        stories.add(scenario.id)
    assert len(stories) >= 6, "different people, different stories"


def words_with(text: str, names: dict[str, str]) -> str:
    for name, former in names.items():
        text = text.replace(name, former)
    return text


def kept(persona: Persona) -> tuple[object, ...]:
    return persona.persona_id, persona.hidden_need, persona.persona_class, persona.traits


def test_stories_cannot_be_exchanged_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="it has no structured story"):
        with_a_training_story(unseen_people()[0].model_copy(update={"story": None}))


@pytest.mark.parametrize("exchange", [with_a_training_story, with_training_names])
def test_a_story_that_holds_what_its_user_says_is_not_exchanged(exchange: Callable[[Persona], Persona]) -> None:
    """A user of a kind presses in words of its scenario, and one of the sealed test hints in words of its own: without them it would be another."""
    (persona,) = compose_special(PersonaKind.DANGER, 7, 0, 1)[1]
    with pytest.raises(ValueError, match=rf"persona {persona.persona_id}: its story holds what it says.*choose other --shifts"):
        exchange(persona)


@pytest.mark.parametrize("name", list(USERS))
def test_a_shifted_dialogue_is_derived_again_from_its_tag_and_from_its_own_words(name: str) -> None:
    personas = {persona.persona_id: persona for persona in unseen_people()}
    for dialogue in held_with(USERS[name], unseen_people()):
        reread = Dialogue.model_validate_json(dialogue.model_dump_json())
        assert difference_of(reread, personas) is None
        row = recording_of(reread.model_dump(mode="json"), "n")
        again = reappraise(row, personas[dialogue.persona_id], ScriptedAppraiser(dialogue.simulator.difficulty), EmotionRules())
        assert [turn.appraisal for turn in again.turns] == [turn.appraisal for turn in dialogue.turns]


def test_a_shifted_dialogue_under_another_name_does_not_pass() -> None:
    personas = {persona.persona_id: persona for persona in unseen_people()}
    dialogue = held_with(USERS["typos-2"], unseen_people()[:1])[0]
    for version, error in (
        (VERSION, None),
        (f"{VERSION}+terse-1", None),
        (f"{VERSION}+typos-1", rf"made by scripted {VERSION}\+typos-1, here that is {VERSION}:"),
        ("scripted-2+typos-2", rf"made by scripted scripted-2\+typos-2, here that is {VERSION}\+typos-2:"),
    ):
        forged = dialogue.model_copy(update={"simulator": SimulatorTag(kind="scripted", difficulty="vanilla", version=version)})
        if error:
            with pytest.raises(NotRederivable, match=error):
                difference_of(forged, personas)
        else:
            difference = difference_of(forged, personas)
            assert difference is not None and (difference.turn, difference.what) == (1, "user")
