"""`converse` with a distilled appraiser and an LLM speaker behind a real server: the model speaks, and is never asked what it feels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from llm_project import change
from micro import micro_model, micro_tokenizer
from scripted_server import Asked, Reply, Server, good, serving_beside
from small_project import make_project

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.load import save_policy
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main

MODEL = {"model": "user-model"}
CONVERSE = ["converse", "--policy", "models/base", "--personas", "test.jsonl", "--variant", "v", "-o", "a.jsonl"]


def title(asked: Asked) -> str:
    return str(asked.body["response_format"]["json_schema"]["schema"]["title"])


def says(messages: list[str]) -> Iterator[Server]:
    """A model that says these messages one after the other."""

    def script(number: int, asked: Asked) -> Reply:
        if not asked.body:
            return Reply(body=json.dumps({"data": [{"id": MODEL["model"]}]}).encode())
        if title(asked) != "SpeechAnswer":
            return Reply(status=400, body=b'{"error": {"message": "only speech can be had here"}}')
        speech = {"thinking": "t", "draft": "d", "message": messages[number % len(messages)], "wants_to_end": False}
        return good(asked, text=json.dumps(speech))

    with serving_beside(script) as server:
        yield server


@pytest.fixture(scope="module")
def english(recordings: list[Dialogue]) -> Iterator[Server]:
    yield from says([turn.user for dialogue in recordings[:9] for turn in dialogue.turns[1:]])


@pytest.fixture(scope="module")
def latin() -> Iterator[Server]:
    yield from says(["Quis custodiet ipsos custodes? Nemo dat quod non habet, nec ego umquam fui laetior quam hodie, amice."])


@pytest.fixture
def conversing(tmp_path: Path, appraiser: Path, people: list[Persona], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an untrained policy, and with personas who begin as recorded ones did."""
    make_project(tmp_path)
    write_jsonl(tmp_path / "test.jsonl", [persona.model_dump(mode="json") for persona in people[:6]])
    save_policy(micro_model(scale=2.0), micro_tokenizer(), tmp_path / "models" / "base")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    change(
        tmp_path / "params" / "v.yaml",
        simulator={"kind": "llm", "llm": {"appraiser": MODEL, "speaker": MODEL}, "appraiser": f"distilled:{appraiser}"},
    )
    change(tmp_path / "params.yaml", rollout={"max_failure_rate": 1.0})
    monkeypatch.chdir(tmp_path)
    for name, value in (("RLVER_USER_KEY", ""), ("RLVER_REPLAY", ""), ("RLVER_BUDGET", "")):
        monkeypatch.setenv(name, value)
    return tmp_path


def test_the_model_speaks_the_appraiser_feels_and_both_can_be_verified(
    conversing: Path, appraiser: Path, english: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLVER_USER_URL", english.url)
    assert main(CONVERSE) == 0
    dialogues = load_transcripts(conversing / "a.jsonl")
    assert len(dialogues) == 6 and {one.simulator.kind for one in dialogues} == {"distilled+llm"}
    assert all(one.error is None and one.turns[-1].appraisal is not None for one in dialogues)
    questions = [title(asked) for asked in english.asked if asked.body]
    assert set(questions) == {"SpeechAnswer"}
    assert len(questions) == sum(len(one.turns) - 1 for one in dialogues) > 0, (
        "one call a turn, for the next message; an LLM user needs two"
    )
    calls = len(english.asked)
    with_appraiser = ["--personas", "test.jsonl", "--variant", "v", "--appraiser", f"distilled:{appraiser}"]
    assert main(["verify", "a.jsonl", *with_appraiser]) == 0
    assert "every emotion follows from its replies" in capsys.readouterr().out
    assert len(english.asked) == calls


def test_a_model_that_speaks_as_no_recorded_user_did_is_unscorable(
    conversing: Path, latin: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLVER_USER_URL", latin.url)
    main([*CONVERSE, "--limit", "3"])
    dialogues = load_transcripts(conversing / "a.jsonl")
    assert len(dialogues) == 3 and all("unlike those the appraiser was learned from" in str(one.error) for one in dialogues)
    assert all(one.emotion_final is None for one in dialogues)
