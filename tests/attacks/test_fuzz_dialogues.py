"""Every command that reads dialogues of others, with dialogues that nobody should write: 100 inputs each, 10,000 in the slow run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import people
from fuzzing import fuzz, times
from mutation import as_json, as_lines, mutants
from valid_documents import CHATS, RECORDED, TRANSCRIPTS

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.formats.foreign import UnreadableChat, recording_of
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.commands import dialogues as dialogue_commands
from rlver.tasks.commands import scores as score_commands
from rlver.tasks.runtime.verification import verified
from rlver.tasks.studies.distil.examples import examples, material
from rlver.tasks.studies.distil.recordings import recorded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def parameters() -> Settings:
    """Those of the project, with few resamplings: intervals are not what is tried here."""
    read = load_settings(ROOT / "params.yaml")
    return read.model_copy(update={"evaluation": read.evaluation.model_copy(update={"bootstrap_samples": 100})})


@pytest.fixture(autouse=True)
def _parameters_are_read_once(parameters: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.components.settings.settings.load_settings", lambda *_, **__: parameters)


@pytest.mark.long
@times
def test_transcripts_that_are_scored(times: int, tmp_path: Path, parameters: Settings) -> None:
    path, out = tmp_path / "foreign.jsonl", tmp_path / "scores.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        score_commands.score(path, None, None, out, ROOT / "params.yaml").encode()

    fuzz(mutants(TRANSCRIPTS, as_lines), read, times)


@times
def test_transcripts_that_are_compared(times: int, tmp_path: Path) -> None:
    path, other = tmp_path / "foreign.jsonl", tmp_path / "other.jsonl"
    write_jsonl(other, TRANSCRIPTS[0])

    def read(content: bytes) -> None:
        path.write_bytes(content)
        score_commands.compare([path, other], params=ROOT / "params.yaml").encode()

    fuzz(mutants(TRANSCRIPTS, as_lines), read, times)


@pytest.mark.long
@times
def test_transcripts_that_are_verified(times: int, tmp_path: Path, parameters: Settings) -> None:
    path = tmp_path / "foreign.jsonl"
    known = {persona.persona_id: persona for persona in people()[1]}

    def read(content: bytes) -> None:
        path.write_bytes(content)
        verified(path, lambda _: known, parameters, tmp_path / "none.db").encode()

    fuzz(mutants(TRANSCRIPTS, as_lines), read, times, path.name)


@times
def test_recorded_sage_dialogues(times: int, tmp_path: Path) -> None:
    path, out = tmp_path / "foreign.jsonl", tmp_path / "transcripts.jsonl"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        dialogue_commands.import_("sage", path, out).encode()

    fuzz(mutants(RECORDED, as_lines), read, times, path.name)


@times
def test_chats_of_others(times: int, tmp_path: Path) -> None:
    path, out = tmp_path / "foreign.jsonl", tmp_path / "transcripts.jsonl"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        dialogue_commands.appraise(path, out, params=ROOT / "params.yaml").encode()

    documents = [*CHATS, *(chat[0] for chat in CHATS), *(json.dumps(chat, indent=1).encode() for chat in CHATS)]
    fuzz(mutants(documents, lambda value: as_lines(value) if isinstance(value, list) else as_json(value)), read, times, path.name)


@times
def test_recordings_to_learn_from(times: int, tmp_path: Path, parameters: Settings) -> None:
    path = tmp_path / "foreign.jsonl"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        material(examples(recorded(path), {}), parameters.distil)

    fuzz(mutants([*RECORDED, *TRANSCRIPTS], as_lines), read, times)


@pytest.mark.parametrize("role", [{"a": 1}, ["user"], 7, None])
def test_a_role_that_is_no_text_is_named(role: object) -> None:
    row = {"messages": [{"role": role, "content": "Hello."}]}
    with pytest.raises(UnreadableChat, match=r"message 1: the role must be user or assistant, got"):
        recording_of(row, "one")


def test_a_recording_whose_numbers_contradict_each_other_teaches_nobody(tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"
    first, *rest = TRANSCRIPTS[0][0]["turns"]
    write_jsonl(path, [{**TRANSCRIPTS[0][0], "turns": [{**first, "emotion": None}, *rest]}])
    with pytest.raises(BadFile, match=r"foreign\.jsonl:1: .*turn 1 has no appraisal"):
        recorded(path)


def test_a_record_that_could_not_be_written_again_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path, deep = tmp_path / "foreign.jsonl", json.loads("[" * 200 + "]" * 200)
    write_jsonl(path, [{**RECORDED[1][0], "extra": deep}])
    with pytest.raises(BadFile, match=r"foreign\.jsonl:1: more than 100 values inside one another"):
        dialogue_commands.import_("sage", path, tmp_path / "out.jsonl")
    write_jsonl(path, [{**TRANSCRIPTS[1][0], "original": {"extra": deep}}])
    with pytest.raises(BadFile, match=r"foreign\.jsonl:1: not a dialogue: original.*more than 100 values inside one another"):
        load_transcripts(path)


@pytest.mark.parametrize("tokens", [10**400, -1])
def test_a_number_of_tokens_that_is_none_is_refused(tokens: int, tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"
    turns = [{**turn, "reply_tokens": tokens} for turn in TRANSCRIPTS[1][0]["turns"]]
    write_jsonl(path, [{**TRANSCRIPTS[1][0], "turns": turns}])
    with pytest.raises(BadFile, match=r"foreign\.jsonl:1: not a dialogue: turns\.0\.reply_tokens"):
        load_transcripts(path)
    with pytest.raises(UnreadableChat, match=r"reply_tokens: expected a number of tokens"):
        recording_of({"turns": turns}, "one")
