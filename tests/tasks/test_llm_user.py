"""An LLM user behind a real server, from the command line to the files: money, replay, verification, and every kind of bad input."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import people
from llm_project import LLM, PRICES, change, files_with, make_llm_project, served
from micro import micro_model, micro_tokenizer
from scripted_server import error
from small_project import train_arguments

from benchmarks.llm_server import counts, running
from components.evaluation.transcripts import load_transcripts
from components.files import read_jsonl, write_jsonl
from components.policy.load import save_policy
from components.recording import CurveFile
from flows.cli import main
from tasks import records
from tasks.dvc import LockedStage
from tasks.stages import converse, run_stage, train

KEY = "sk-secret-0123456789abcdef"
CONVERSE = ["converse", "--policy", "models/base", "--personas", "test.jsonl", "--variant", "v"]
STAGE = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/base", "--out"]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running("--key", KEY) as url:
        yield url


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> Path:
    """An untrained policy, eight test personas, the address and the key; the current directory."""
    make_llm_project(tmp_path)
    save_policy(micro_model(scale=2.0), micro_tokenizer(), tmp_path / "models" / "base")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    for name, value in (("RLVER_USER_URL", server), ("RLVER_USER_KEY", KEY), ("RLVER_REPLAY", ""), ("RLVER_BUDGET", "")):
        monkeypatch.setenv(name, value)
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line a command says when it fails."""
    assert main(list(arguments)) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("█", "░"))]
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]


def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:9/v1")


def test_converse_talks_with_the_model_shows_what_it_costs_and_verify_derives_it_from_the_answers(
    project: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counts(server)["calls"]
    assert main([*CONVERSE, "-o", "a.jsonl"]) == 0
    dialogues = load_transcripts(project / "a.jsonl")
    assert len(dialogues) == 8 and all(dialogue.simulator.kind == "llm" and len(dialogue.turns) == 3 for dialogue in dialogues)
    calls = counts(server)["calls"] - before
    assert calls == 8 * (3 + 2), "three appraisals and two messages; the first line is the persona's"
    assert re.search(rf"8/8  emotion .* {calls} calls, 0 retries, 0 cached, [\d,]+\+[\d,]+ tokens, p50 ", capsys.readouterr().err)

    assert main(["verify", "a.jsonl", "--personas", "test.jsonl", "--variant", "v"]) == 0
    assert "24 appraisals: every emotion follows from its replies and the answers in answers/user.db" in capsys.readouterr().out
    assert main(["score", "a.jsonl", "--personas", "test.jsonl"]) == 0
    assert counts(server)["calls"] - before == calls, "neither verify nor score asks anybody"


def test_verify_finds_what_the_model_never_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERSE, "-o", "a.jsonl", "--limit", "2"]) == 0
    capsys.readouterr()
    verify = ("--personas", "test.jsonl", "--variant", "v")
    rows = [row for _, row in read_jsonl(project / "a.jsonl")]
    said = rows[1]["turns"][1]["user"]
    rows[1]["turns"][1]["user"] = "Everything is fine"
    write_jsonl(project / "words.jsonl", rows)
    assert f"turn 2: user: expected {said!r}, found 'Everything is fine'" in complaint(capsys, "verify", "words.jsonl", *verify)

    rows[1]["turns"][1]["user"] = said
    appraisal = rows[1]["turns"][2]["appraisal"]
    appraisal["change"] += 1
    rows[1]["turns"][2]["emotion"] += 1
    rows[1]["emotion_final"] += 1
    write_jsonl(project / "change.jsonl", rows)
    wrong = complaint(capsys, "verify", "change.jsonl", *verify)
    assert f"turn 3: appraisal.change: expected {appraisal['change'] - 1}, found {appraisal['change']}" in wrong

    appraisal["change"] -= 1
    write_jsonl(project / "sum.jsonl", rows)
    assert "sum.jsonl:2: dialogue" in complaint(capsys, "verify", "sum.jsonl", *verify)

    rows[1]["turns"][2]["emotion"] -= 1
    rows[1]["emotion_final"] -= 1
    rows[1]["turns"][0]["assistant"] = "I never said this"
    write_jsonl(project / "reply.jsonl", rows)
    assert "holds no answer of 'user-model' to this request" in complaint(capsys, "verify", "reply.jsonl", *verify)
    assert "by these parameters it is" in complaint(capsys, "verify", "a.jsonl", "--personas", "test.jsonl", "--variant", _other(project))


def _other(project: Path) -> str:
    (project / "params" / "other.yaml").write_text((project / "params" / "v.yaml").read_text().replace("user-model", "another"))
    return "other"


def test_without_the_answers_verify_says_what_it_could_not_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERSE, "-o", "a.jsonl", "--limit", "1"]) == 0
    (project / "answers" / "user.db").unlink()
    assert main(["verify", "a.jsonl", "--personas", "test.jsonl", "--variant", "v"]) == 0
    said = capsys.readouterr().out
    assert "every emotion follows from the recorded changes; whether a model said so, nobody can tell without answers/user.db" in said


def test_a_replay_needs_no_server_and_gives_the_same_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("--key", KEY) as url:
        monkeypatch.setenv("RLVER_USER_URL", url)
        assert main([*CONVERSE, "-o", "live.jsonl"]) == 0
    before = (project / "answers" / "user.db").read_bytes()
    monkeypatch.delenv("RLVER_USER_URL")
    assert main([*CONVERSE, "-o", "again.jsonl", "--replay"]) == 0
    assert (project / "again.jsonl").read_bytes() == (project / "live.jsonl").read_bytes()
    assert "8/8" in (shown := capsys.readouterr().err) and "0 calls, 0 retries, 40 cached" in shown
    assert (project / "answers" / "user.db").read_bytes() == before, "not a byte changes"

    write_jsonl(project / "others.jsonl", [persona.model_dump(mode="json") for persona in people()[0][:2]])
    stranger = complaint(capsys, *CONVERSE[:-4], "--personas", "others.jsonl", "--variant", "v", "-o", "x.jsonl", "--replay")
    assert "2 of 2 dialogues failed" in stranger and "run without replay to ask the endpoint" in stranger
    assert not (project / "x.jsonl").exists()


def told(row: dict[str, float]) -> dict[str, float]:
    """A step without its time. Answers come at other moments, dialogues share other batches, and the last digits of the gap differ."""
    return row | {"seconds": 0, "logprob_gap": round(row.get("logprob_gap", 0.0), 5)}


def test_a_replayed_training_has_the_same_curves_and_weights(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("--key", KEY) as url:
        monkeypatch.setenv("RLVER_USER_URL", url)
        assert train.main(train_arguments("live")) == 0
        asked = counts(url)
    shown = capsys.readouterr().out.splitlines()
    steps = [line for line in shown if line.startswith("step ")]
    assert len(steps) == 2 and "nan" not in "".join(shown)
    totals = [int(re.findall(r"(\d+) calls", line)[0]) for line in shown if " calls, " in line]
    assert totals == sorted(totals) and totals[0] < totals[-1] == asked["calls"], "counted since the stage began, not since the last batch"
    spent = json.loads((project / "answers" / "costs" / "models" / "live.json").read_text())["user"]
    assert spent["calls"] == asked["calls"] and spent["user-model/seconds_p95"] > 0

    monkeypatch.delenv("RLVER_USER_URL")
    monkeypatch.setenv("RLVER_REPLAY", "1")
    assert train.main(train_arguments("again")) == 0
    for curve in ("train", "evaluation"):
        live, again = ([told(row) for row in CurveFile(Path("logs") / name / curve).rows()] for name in ("live", "again"))
        assert live and live == again
    weights = [(project / "models" / name / "model.safetensors").read_bytes() for name in ("live", "again")]
    assert weights[0] == weights[1]
    spent = json.loads((project / "answers" / "costs" / "models" / "again.json").read_text())["user"]
    assert spent["calls"] == spent["money"] == 0 and spent["cache_hits"] > 0


def test_the_costs_of_a_stage_go_to_its_tracker_and_leave_with_the_llm_user(project: Path) -> None:
    change(project / "params.yaml", endpoint={"prices": PRICES})
    assert converse.main([*STAGE, "transcripts/v.jsonl"]) == 0
    stage = LockedStage("converse@v", {}, {}, {"transcripts/v.jsonl": "0" * 32})
    metrics = records.read(project, stage.name, {stage.name: stage}).metrics
    assert metrics["user/calls"] == metrics["user/answered"] == 40 and metrics["user/retries"] == 0
    assert metrics["user/money"] == metrics["user/recorded_money_at_most"] > 0
    assert metrics["user/user-model/seconds_p50"] > 0
    assert converse.main(["--variant", "scripted", *STAGE[2:], "transcripts/v.jsonl"]) == 0
    assert records.read(project, stage.name, {stage.name: stage}).metrics == {}


def test_the_budget_stops_in_one_line_and_nothing_is_paid_for_twice(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(project / "params.yaml", endpoint={"prices": PRICES, "concurrency": 2})
    with running("--key", KEY) as url:
        monkeypatch.setenv("RLVER_USER_URL", url)
        stopped = complaint(capsys, *CONVERSE, "-o", "a.jsonl", "--budget", "0.03")
        assert re.search(
            r"the budget is 0\.0300, up to 0\.0\d+ is spent, .*raise the budget and run again: answered calls are kept", stopped
        )
        first = counts(url)
        assert 0 < first["calls"] < 40 and not (project / "a.jsonl").exists()
        assert main([*CONVERSE, "-o", "a.jsonl", "--budget", "5"]) == 0
        assert counts(url)["calls"] == 40 and set(counts(url)["answered"].values()) == {1}
    assert len(load_transcripts(project / "a.jsonl")) == 8
    assert "of 5.0000" in capsys.readouterr().err


def test_a_supporter_talks_with_the_model(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("I am so sorry.\nTell me more.\n/quit\n"))
    assert main(["chat", "--as", "supporter", "--personas", "test.jsonl", "--variant", "v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"user> {people()[1][0].first_line}" in lines and sum(line.startswith("user> ugh, same as ever.") for line in lines) == 2
    assert lines[-2].startswith("you left after 2 turns, final emotion ")


def test_whoever_talks_to_a_policy_needs_no_server_of_users(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody_answers(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n"))
    assert main(["chat", "--policy", "models/base", "--variant", "v"]) == 0
    assert "it > " in capsys.readouterr().out


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
    project: Path,
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    broken: dict[str, str],
    expected: str,
) -> None:
    for name, value in broken.items():
        monkeypatch.setenv(name, value)
    before = counts(server)["calls"]
    assert expected in complaint(capsys, *CONVERSE, "-o", "a.jsonl")
    status = run_stage(lambda: train.main(train_arguments("x")))
    assert expected in (shown := capsys.readouterr().err) and len(shown.splitlines()) == 1
    assert status == (75 if "is the server running" in expected else 1), "a server that is down may be up later"
    assert counts(server)["calls"] == before and not (project / "models" / "x").exists()


def test_an_unknown_model_and_an_unplayable_persona_are_told_before_anything_is_asked(
    project: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counts(server)["calls"]
    assert "unknown model 'another'; the server has user-model" in complaint(capsys, *CONVERSE[:-1], _other(project), "-o", "a.jsonl")
    rows = [persona.model_dump(mode="json") for persona in people()[1]]
    rows[-1]["language"] = "fr"
    write_jsonl(project / "test.jsonl", rows)
    assert "language" in complaint(capsys, *CONVERSE, "-o", "a.jsonl")
    assert counts(server)["calls"] == before


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("This model's maximum context length is 10 tokens", "too long for 'user-model'"),
        ("rejected by our content management policy", "the content was refused"),
        ("you may not", "the request was refused (HTTP 400): you may not; check the parameters of 'user-model'"),
    ],
)
def test_what_only_the_server_can_know_ends_dialogues_and_is_told_with_its_count(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, expected: str
) -> None:
    def body(url: str) -> None:
        monkeypatch.setenv("RLVER_USER_URL", url)
        told = complaint(capsys, *CONVERSE, "-o", "a.jsonl")
        assert "8 of 8 dialogues failed (allowed: 5%): 8 x SimulatorUnavailable: turn 1: the appraisal: " in told and expected in told

    asked = served(lambda number, asked: error(400, said) if asked.body else error(404, "no list"), body).asked
    assert sum(bool(one.body) for one in asked) == 8, "a refusal is not asked again"
    assert not (project / "a.jsonl").exists()


def test_a_simulator_that_does_not_exist_and_one_without_models(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*CONVERSE[:-1], "scripted", "-o", "a.jsonl", "--simulator"]
    assert "there is no simulator oracle: kind: Input should be 'scripted' or 'llm'" in complaint(capsys, *command, "oracle")
    assert "llm.appraiser.model and llm.speaker.model must name models" in complaint(capsys, *command, "llm")
    named = project / "params" / "scripted.yaml"
    change(named, simulator={"llm": LLM["llm"]})
    assert main([*command, "llm", "--limit", "1"]) == 0
    assert load_transcripts(project / "a.jsonl")[0].simulator.kind == "llm"


def test_the_key_stays_where_it_is(
    project: Path, server: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a run nor a refusal, by a server that says the key back, leaves it in any file, log line or message."""
    caplog.set_level(logging.DEBUG)
    assert main([*CONVERSE, "-o", "a.jsonl", "--limit", "2"]) == 0
    assert converse.main([*STAGE, "transcripts/v.jsonl"]) == 0
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err + caplog.text and not files_with(project, KEY)
    assert files_with(project, "user-model"), "the search finds what is there"
    wrong = "sk-another-secret-0123456789"
    monkeypatch.setenv("RLVER_USER_KEY", wrong)
    monkeypatch.setenv("RLVER_DEBUG", "1")
    assert main([*CONVERSE, "-o", "b.jsonl"]) == 1
    shown = capsys.readouterr()
    assert "Traceback" in shown.err and wrong not in shown.out + shown.err + caplog.text and not files_with(project, wrong)
