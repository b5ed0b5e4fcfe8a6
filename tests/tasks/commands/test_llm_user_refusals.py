"""What cannot work with a language model as the user, told in one line; and the key, which stays where it is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from dialogue_project import complaint
from fakes import people
from llm_project import KEY, LLM, change, files_with, served, variant_of_another_model
from scripted_server import error
from small_project import train_arguments

from benchmarks.llm_server import counts
from rlver.components.domain.files import write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main
from rlver.tasks.runtime.stage import run_stage
from rlver.tasks.stages import converse, train

CONVERSE = ["converse", "--policy", "models/base", "--personas", "test.jsonl", "--variant", "v"]
STAGE = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/base", "--out"]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ({"RLVER_USER_KEY": "sk-wrong-0123456789abcdef"}, "the key was not accepted (HTTP 401): check RLVER_USER_KEY"),
        ({"RLVER_USER_KEY": ""}, "a key is needed (HTTP 401): set RLVER_USER_KEY"),
        ({"RLVER_USER_URL": "http://127.0.0.1:9/v1"}, "is the server running, and is the address right?"),
        ({"RLVER_USER_URL": "127.0.0.1:8100"}, "RLVER_USER_URL: the address of an endpoint must look like http://127.0.0.1:8100/v1"),
        ({"RLVER_USER_URL": ""}, "no chat endpoint is set: put RLVER_USER_URL=http://127.0.0.1:8100/v1 into .env"),
        ({"RLVER_BUDGET": "much"}, "must be an amount of money, 0 or more, got 'much'"),
        ({"RLVER_BUDGET": "5"}, "'user-model' has no price, so the budget cannot be kept: add it to endpoint.prices"),
        ({"RLVER_REPLAY": "1"}, "answers/user.db: no such file, so there is nothing to replay"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_asked(
    llm_user_project: Path,
    user_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    broken: dict[str, str],
    expected: str,
) -> None:
    for name, value in broken.items():
        monkeypatch.setenv(name, value)
    before = counts(user_server)["calls"]
    assert expected in complaint(capsys, *CONVERSE, "-o", "a.jsonl")
    status = run_stage(lambda: train.main(train_arguments("x")))
    assert expected in (shown := capsys.readouterr().err) and len(shown.splitlines()) == 1
    assert status == (75 if "is the server running" in expected else 1), "a server that is down may be up later"
    assert counts(user_server)["calls"] == before and not (llm_user_project / "models" / "x").exists()


def test_an_unknown_model_and_an_unplayable_persona_are_told_before_anything_is_asked(
    llm_user_project: Path, user_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counts(user_server)["calls"]
    assert "unknown model 'another'; the server has user-model" in complaint(
        capsys, *CONVERSE[:-1], variant_of_another_model(llm_user_project), "-o", "a.jsonl"
    )
    rows = [persona.model_dump(mode="json") for persona in people()[1]]
    rows[-1]["language"] = "fr"
    write_jsonl(llm_user_project / "test.jsonl", rows)
    assert "language" in complaint(capsys, *CONVERSE, "-o", "a.jsonl")
    assert counts(user_server)["calls"] == before


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("This model's maximum context length is 10 tokens", "too long for 'user-model'"),
        ("rejected by our content management policy", "the content was refused"),
        ("you may not", "the request was refused (HTTP 400): you may not; check the parameters of 'user-model'"),
    ],
)
def test_what_only_the_server_can_know_ends_dialogues_and_is_told_with_its_count(
    llm_user_project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, expected: str
) -> None:
    def body(url: str) -> None:
        monkeypatch.setenv("RLVER_USER_URL", url)
        told = complaint(capsys, *CONVERSE, "-o", "a.jsonl")
        assert "8 of 8 dialogues failed (allowed: 5%): 8 x SimulatorUnavailable: turn 1: the appraisal: " in told and expected in told

    asked = served(lambda number, asked: error(400, said) if asked.body else error(404, "no list"), body).asked
    assert sum(bool(one.body) for one in asked) == 8, "a refusal is not asked again"
    assert not (llm_user_project / "a.jsonl").exists()


def test_a_simulator_that_does_not_exist_and_one_without_models(llm_user_project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*CONVERSE[:-1], "scripted", "-o", "a.jsonl", "--simulator"]
    assert "unknown simulator 'oracle': choose one of" in complaint(capsys, *command, "oracle")
    assert "llm.appraiser.model and llm.speaker.model must name models" in complaint(capsys, *command, "llm")
    named = llm_user_project / "params" / "scripted.yaml"
    change(named, simulator={"llm": LLM["llm"]})
    assert main([*command, "llm", "--limit", "1"]) == 0
    assert load_transcripts(llm_user_project / "a.jsonl")[0].simulator.kind == "llm"


@pytest.mark.long
def test_the_key_stays_where_it_is(
    llm_user_project: Path,
    user_server: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a run nor a refusal, by a server that says the key back, leaves it in any file, log line or message."""
    caplog.set_level(logging.DEBUG)
    assert main([*CONVERSE, "-o", "a.jsonl", "--limit", "2"]) == 0
    assert converse.main([*STAGE, "transcripts/v.jsonl"]) == 0
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err + caplog.text and not files_with(llm_user_project, KEY)
    assert files_with(llm_user_project, "user-model"), "the search finds what is there"
    wrong = "sk-another-secret-0123456789"
    monkeypatch.setenv("RLVER_USER_KEY", wrong)
    monkeypatch.setenv("RLVER_DEBUG", "1")
    assert main([*CONVERSE, "-o", "b.jsonl"]) == 1
    shown = capsys.readouterr()
    assert "Traceback" in shown.err and wrong not in shown.out + shown.err + caplog.text and not files_with(llm_user_project, wrong)
