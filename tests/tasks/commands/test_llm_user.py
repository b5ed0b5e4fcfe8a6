"""Commands and stages with a language model as the user: what is asked, kept, paid and derived again."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from dialogue_project import complaint
from fakes import people
from llm_project import KEY, PRICES, change, nobody_answers, variant_of_another_model
from small_project import train_arguments

from benchmarks.llm_server import counts, running
from rlver.components.domain.files import read_jsonl, write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.training.curves import CurveFile
from rlver.flows.cli import main
from rlver.tasks.graph.dvc import LockedStage
from rlver.tasks.stages import converse, train
from rlver.tasks.tracking import records

CONVERSE = ["converse", "--policy", "models/base", "--personas", "test.jsonl", "--variant", "v"]
STAGE = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/base", "--out"]


@pytest.mark.long
def test_converse_talks_with_the_model_shows_what_it_costs_and_verify_derives_it_from_the_answers(
    llm_user_project: Path, user_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = counts(user_server)["calls"]
    assert main([*CONVERSE, "-o", "a.jsonl"]) == 0
    dialogues = load_transcripts(llm_user_project / "a.jsonl")
    assert len(dialogues) == 8 and all(dialogue.simulator.kind == "llm" and len(dialogue.turns) == 3 for dialogue in dialogues)
    calls = counts(user_server)["calls"] - before
    assert calls == 8 * (3 + 2), "three appraisals and two messages; the first line is the persona's"
    assert re.search(rf"8/8  emotion .* {calls} calls, 0 retries, 0 cached, [\d,]+\+[\d,]+ tokens, p50 ", capsys.readouterr().err)

    assert main(["verify", "a.jsonl", "--personas", "test.jsonl", "--variant", "v"]) == 0
    assert "24 appraisals: every emotion follows from its replies and the answers in answers/user.db" in capsys.readouterr().out
    assert main(["score", "a.jsonl", "--personas", "test.jsonl"]) == 0
    assert counts(user_server)["calls"] - before == calls, "neither verify nor score asks anybody"


@pytest.mark.long
def test_verify_finds_what_the_model_never_said(llm_user_project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERSE, "-o", "a.jsonl", "--limit", "2"]) == 0
    capsys.readouterr()
    verify = ("--personas", "test.jsonl", "--variant", "v")
    rows = [row for _, row in read_jsonl(llm_user_project / "a.jsonl")]
    said = rows[1]["turns"][1]["user"]
    rows[1]["turns"][1]["user"] = "Everything is fine"
    write_jsonl(llm_user_project / "words.jsonl", rows)
    assert f"turn 2: user: expected {said!r}, found 'Everything is fine'" in complaint(capsys, "verify", "words.jsonl", *verify)

    rows[1]["turns"][1]["user"] = said
    appraisal = rows[1]["turns"][2]["appraisal"]
    appraisal["change"] += 1
    rows[1]["turns"][2]["emotion"] += 1
    rows[1]["emotion_final"] += 1
    write_jsonl(llm_user_project / "change.jsonl", rows)
    wrong = complaint(capsys, "verify", "change.jsonl", *verify)
    assert f"turn 3: appraisal.change: expected {appraisal['change'] - 1}, found {appraisal['change']}" in wrong

    appraisal["change"] -= 1
    write_jsonl(llm_user_project / "sum.jsonl", rows)
    assert "sum.jsonl:2: dialogue" in complaint(capsys, "verify", "sum.jsonl", *verify)

    rows[1]["turns"][2]["emotion"] -= 1
    rows[1]["emotion_final"] -= 1
    rows[1]["turns"][0]["assistant"] = "I never said this"
    write_jsonl(llm_user_project / "reply.jsonl", rows)
    assert "holds no answer of 'user-model' to this request" in complaint(capsys, "verify", "reply.jsonl", *verify)
    assert "verify with the parameters and the version of that run" in complaint(
        capsys, "verify", "a.jsonl", "--personas", "test.jsonl", "--variant", variant_of_another_model(llm_user_project)
    )


def test_without_the_answers_verify_says_what_it_could_not_check(llm_user_project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERSE, "-o", "a.jsonl", "--limit", "1"]) == 0
    (llm_user_project / "answers" / "user.db").unlink()
    assert main(["verify", "a.jsonl", "--personas", "test.jsonl", "--variant", "v"]) == 0
    said = capsys.readouterr().out
    assert "every emotion follows from the recorded changes; whether a model said so, nobody can tell without answers/user.db" in said


@pytest.mark.long
def test_a_replay_needs_no_server_and_gives_the_same_file(
    llm_user_project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("--key", KEY) as url:
        monkeypatch.setenv("RLVER_USER_URL", url)
        assert main([*CONVERSE, "-o", "live.jsonl"]) == 0
    before = (llm_user_project / "answers" / "user.db").read_bytes()
    monkeypatch.delenv("RLVER_USER_URL")
    assert main([*CONVERSE, "-o", "again.jsonl", "--replay"]) == 0
    assert (llm_user_project / "again.jsonl").read_bytes() == (llm_user_project / "live.jsonl").read_bytes()
    assert "8/8" in (shown := capsys.readouterr().err) and "0 calls, 0 retries, 40 cached" in shown
    assert (llm_user_project / "answers" / "user.db").read_bytes() == before, "not a byte changes"

    write_jsonl(llm_user_project / "others.jsonl", [persona.model_dump(mode="json") for persona in people()[0][:2]])
    stranger = complaint(capsys, *CONVERSE[:-4], "--personas", "others.jsonl", "--variant", "v", "-o", "x.jsonl", "--replay")
    assert "2 of 2 dialogues failed" in stranger and "run without replay to ask the endpoint" in stranger
    assert not (llm_user_project / "x.jsonl").exists()


def told(row: dict[str, float]) -> dict[str, float]:
    """A step without its time. Answers come at other moments, dialogues share other batches, and the last digits of the gap differ."""
    return row | {"seconds": 0, "logprob_gap": round(row.get("logprob_gap", 0.0), 5)}


@pytest.mark.long
def test_a_replayed_training_has_the_same_curves_and_weights(
    llm_user_project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    spent = json.loads((llm_user_project / "answers" / "costs" / "models" / "live.json").read_text())["user"]
    assert spent["calls"] == asked["calls"] and spent["user-model/seconds_p95"] > 0

    monkeypatch.delenv("RLVER_USER_URL")
    monkeypatch.setenv("RLVER_REPLAY", "1")
    assert train.main(train_arguments("again")) == 0
    for curve in ("train", "evaluation"):
        live, again = ([told(row) for row in CurveFile(Path("logs") / name / curve).rows()] for name in ("live", "again"))
        assert live and live == again
    weights = [(llm_user_project / "models" / name / "model.safetensors").read_bytes() for name in ("live", "again")]
    assert weights[0] == weights[1]
    spent = json.loads((llm_user_project / "answers" / "costs" / "models" / "again.json").read_text())["user"]
    assert spent["calls"] == spent["money"] == 0 and spent["cache_hits"] > 0


@pytest.mark.long
def test_the_costs_of_a_stage_go_to_its_tracker_and_leave_with_the_llm_user(llm_user_project: Path) -> None:
    change(llm_user_project / "params.yaml", endpoint={"prices": PRICES})
    assert converse.main([*STAGE, "transcripts/v.jsonl"]) == 0
    stage = LockedStage("converse@v", {}, {}, {"transcripts/v.jsonl": "0" * 32})
    metrics = records.read(llm_user_project, stage.name, {stage.name: stage}).metrics
    assert metrics["user/calls"] == metrics["user/answered"] == 40 and metrics["user/retries"] == 0
    assert metrics["user/money"] == metrics["user/recorded_money_at_most"] > 0
    assert metrics["user/user-model/seconds_p50"] > 0
    assert converse.main(["--variant", "scripted", *STAGE[2:], "transcripts/v.jsonl"]) == 0
    assert records.read(llm_user_project, stage.name, {stage.name: stage}).metrics == {}


@pytest.mark.long
def test_the_budget_stops_in_one_line_and_nothing_is_paid_for_twice(
    llm_user_project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(llm_user_project / "params.yaml", endpoint={"prices": PRICES, "concurrency": 2})
    with running("--key", KEY) as url:
        monkeypatch.setenv("RLVER_USER_URL", url)
        stopped = complaint(capsys, *CONVERSE, "-o", "a.jsonl", "--budget", "0.03")
        assert re.search(
            r"the budget is 0\.0300 USD, up to 0\.0\d+ USD is spent, .* may cost 0\.0\d+ USD; raise the budget and run again: answered calls are kept",
            stopped,
        )
        first = counts(url)
        assert 0 < first["calls"] < 40 and not (llm_user_project / "a.jsonl").exists()
        assert main([*CONVERSE, "-o", "a.jsonl", "--budget", "5"]) == 0
        assert counts(url)["calls"] == 40 and set(counts(url)["answered"].values()) == {1}
    assert len(load_transcripts(llm_user_project / "a.jsonl")) == 8
    assert "of 5.0000" in capsys.readouterr().err


def test_a_supporter_talks_with_the_model(
    llm_user_project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("I am so sorry.\nTell me more.\n/quit\n"))
    assert main(["chat", "--as", "supporter", "--personas", "test.jsonl", "--variant", "v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"user> {people()[1][0].first_line}" in lines and sum(line.startswith("user> ugh, same as ever.") for line in lines) == 2
    assert lines[-2].startswith("you left after 2 turns, final emotion ")


def test_whoever_talks_to_a_policy_needs_no_server_of_users(
    llm_user_project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody_answers(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n"))
    assert main(["chat", "--policy", "models/base", "--variant", "v"]) == 0
    assert "it > " in capsys.readouterr().out
