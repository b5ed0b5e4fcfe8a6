"""Persona files as verl's rows."""

from __future__ import annotations

from pathlib import Path

import fakes
import pytest

from rlver.components.adapters.verl_dataset import NAME, SupportDataset
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.personas.schema import InvalidPersonas


def test_a_row_is_a_persona_whole_with_the_seed_of_its_user(tmp_path: Path) -> None:
    people = fakes.people()[0][:3]
    write_jsonl(tmp_path / "people.jsonl", [one.model_dump(mode="json") for one in people])
    rows = SupportDataset([str(tmp_path / "people.jsonl")], tokenizer=None, config={"seed": 11})
    told = [rows[place]["extra_info"] for place in range(len(rows))]
    assert [Persona.model_validate_json(one["persona"]) for one in told] == list(people)
    assert {one["seed"] for one in told} == {11} and [one["index"] for one in told] == [0, 1, 2]
    assert {rows[place]["agent_name"] for place in range(3)} == {NAME}
    assert people[0].need_text not in str(rows[0]["raw_prompt"])
    assert len(SupportDataset(str(tmp_path / "people.jsonl"), None, {"seed": None}, max_samples=2)) == 2


def test_held_out_personas_have_an_agent_loop_of_their_own_where_one_is_named(tmp_path: Path) -> None:
    for name in ("learning", "watched"):
        write_jsonl(tmp_path / f"{name}.jsonl", [fakes.people()[0][0].model_dump(mode="json")])
    learning, watched = (str(tmp_path / f"{name}.jsonl") for name in ("learning", "watched"))
    config = {"val_files": watched}
    assert SupportDataset(watched, None, config)[0]["agent_name"] == NAME
    config["watched_agent"] = "theirs"
    assert SupportDataset(watched, None, config)[0]["agent_name"] == "theirs"
    assert SupportDataset([watched], None, config)[0]["agent_name"] == "theirs"
    assert SupportDataset(learning, None, config)[0]["agent_name"] == NAME


def test_a_bad_persona_file_is_refused(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "people.jsonl", [{"persona_id": "x"}])
    with pytest.raises(InvalidPersonas):
        SupportDataset(str(tmp_path / "people.jsonl"), None, {})
