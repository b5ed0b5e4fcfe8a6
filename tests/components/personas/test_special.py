"""Personas of a kind: own files, own scenarios and words in each split, and ordinary personas that know nothing of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona, PersonaKind
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import LibraryError, load_library, load_special
from rlver.components.personas.needs import stated_need
from rlver.components.personas.schema import validate_file, validate_personas
from rlver.components.personas.special import compose_special, split_special
from rlver.components.personas.split import labelled_split


def test_ordinary_personas_have_the_bytes_they_had_before_there_were_kinds() -> None:
    train, test = compose_personas(load_library(), 7, 16, 8)
    written = "\n".join(persona.model_dump_json() for persona in (*train, *test))
    assert '"kind"' not in written and '"presses"' not in written
    assert hashlib.sha256(written.encode()).hexdigest() == "f6377dda6dc3faf69cef7368b9e51e09317b07234575f78f720608e5ac95e362"


@pytest.mark.parametrize("kind", PersonaKind)
def test_train_and_test_share_no_scenario_and_no_word_in_which_a_user_presses(kind: PersonaKind) -> None:
    train, test = compose_special(kind, 7, 24, 8)
    labelled_split(train, test)
    validate_personas("train.jsonl", train)
    validate_personas("test.jsonl", test)
    pressed = [{line for persona in people if persona.story for line in persona.story.presses} for people in (train, test)]
    assert all(pressed) and not pressed[0] & pressed[1]
    assert {persona.kind for persona in (*train, *test)} == {kind}
    assert len({persona.persona_id for persona in (*train, *test)}) == 32


@pytest.mark.parametrize("kind", PersonaKind)
def test_there_are_eight_scenarios_of_a_kind_and_no_line_states_a_need(kind: PersonaKind) -> None:
    scenarios = load_special(kind)
    assert len(scenarios) == 8
    assert not [line for one in scenarios for line in (*one.openers, *one.lines, *one.presses) if stated_need(line)]


def test_both_splits_meet_danger_from_oneself_and_from_somebody_near() -> None:
    for scenarios in split_special(PersonaKind.DANGER):
        assert {one.group for one in scenarios} == {"self", "near"}


def test_the_same_seed_gives_the_same_personas_and_they_come_back_from_a_file_equal(tmp_path: Path) -> None:
    people: list[Persona] = compose_special(PersonaKind.DANGER, 3, 6, 2)[0]
    assert people == compose_special(PersonaKind.DANGER, 3, 6, 2)[0] != compose_special(PersonaKind.DANGER, 4, 6, 2)[0]
    write_jsonl(tmp_path / "train.jsonl", [one.model_dump(mode="json") for one in people])
    assert validate_file(tmp_path / "train.jsonl") == people


def test_a_scenario_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "danger.yaml").write_text("- {id: boundary-x}\n")
    with pytest.raises(LibraryError, match=r"danger\.yaml: boundary-x"):
        load_special(PersonaKind.DANGER, tmp_path)
