"""`rlver blind A B` and `rlver blind report` as they are typed: a server of its own process, that may be killed at any time."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from blind_page import message
from blind_server import server
from blind_study import SECRETS
from mlflow import MlflowClient
from scripted_server import MODEL, Asked, Reply, good, serving_beside
from starlette.testclient import TestClient

from rlver.components.domain.files import write_jsonl
from rlver.flows.cli import main
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.studies.blind import serving
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, TalkBegun, TalkVerdict, read_answers
from rlver.tasks.studies.blind.page import page_guard

Answered = Callable[[dict[str, int]], None]


def one_model(number: int, asked: Asked) -> Reply:
    return good(asked) if asked.body else Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode())


def judge(page: httpx.Client, rater: str, place: int, choice: str) -> None:
    answer = {"rater": rater, "place": place, "answer_id": os.urandom(16).hex(), "choice": choice, "confidence": 2}
    page.post("/api/answer", json={**answer, "reason": "", "seconds": 1.0}).raise_for_status()


def prefer_b(page: httpx.Client, rater: str, places: int) -> None:
    """As somebody who can tell who replied: side b throughout."""
    for place in range(places):
        view = page.get("/api/pair", params={"rater": rater, "place": place}).json()
        judge(page, rater, place, "left" if view["left"][0]["reply"].startswith("reply b") else "right")


@pytest.fixture
def answered(project: Path, monkeypatch: pytest.MonkeyPatch) -> Answered:
    """`rlver blind` in this process, with answers in a.jsonl: who prefers side b, and at how many places."""

    def answer(places: dict[str, int]) -> None:
        def serve(app: Any, host: str, port: int, say: object) -> None:
            with TestClient(page_guard(app, hosts_of(host, port), None), base_url=f"http://{host}:{port}") as page:
                for rater, count in places.items():
                    prefer_b(page, rater, count)

        monkeypatch.setattr(serving, "serve", serve)
        assert main(["blind", "one.jsonl", "other.jsonl", "--answers", "a.jsonl"]) == 0

    return answer


@pytest.mark.long
def test_a_killed_server_has_lost_nothing_and_goes_on(project: Path) -> None:
    for kill in range(2):
        with (
            server(project, "one.jsonl", "other.jsonl", "--answers", "answers.jsonl") as (process, url),
            httpx.Client(base_url=url, trust_env=False) as page,
        ):
            state = page.get("/api/pair", params={"rater": "ann"}).json()
            assert (state["place"], state["answered"]) == (2 * kill, 2 * kill)
            for place in (2 * kill, 2 * kill + 1):
                judge(page, "ann", place, "left")
            os.kill(process.pid, signal.SIGKILL)
    rows = [row for row in read_answers(project / "answers.jsonl").rows if isinstance(row, Choice)]
    assert len(rows) == 4 == len({row.pair_id for row in rows})


@pytest.mark.long
def test_ctrl_c_ends_it_and_the_terminal_names_no_side_by_what_is_shown(project: Path) -> None:
    """Whoever starts the server may answer too: the terminal shows file names, which they typed, and no more."""
    with (
        server(project, "--raters", "Ann, Bo", "one.jsonl", "other.jsonl") as (process, url),
        httpx.Client(base_url=url, trust_env=False) as page,
    ):
        assert page.get("/api/start", params={"rater": "eve"}).status_code == 403
        judge(page, "Ann", 0, "left")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
        assert process.returncode == 0 and said.splitlines()[-1] == "stopped"
    assert not any(secret in said for secret in SECRETS)
    assert (project / "blind" / "one-vs-other.jsonl").is_file()


def test_the_report_goes_to_the_files_and_once_into_mlflow(
    answered: Answered, project: Path, tracking_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answered({"ann": 8, "bo": 8})
    assert main(["blind", "report", "a.jsonl"]) == 0
    told = capsys.readouterr().out
    assert "b wins 100% [" in told and (project / "a.report.md").read_text() in told
    numbers = json.loads((project / "a.report.json").read_text())
    assert numbers["compared"]["preferred"]["win_rate"]["value"] == 1.0
    assert numbers["compared"]["emotion"]["sign"]["value"] == 1.0  # emotions of b are higher throughout
    assert numbers["compared"]["agreement"]["raw"]["value"] == 1.0
    client = MlflowClient(tracking_uri)
    (run,) = client.search_runs([client.get_experiment_by_name("rlver").experiment_id])
    assert run.data.metrics["compared/preferred/win_rate/value"] == 1.0
    assert run.data.metrics["compared/preferred/win_rate/ci95/lo"] == numbers["compared"]["preferred"]["win_rate"]["ci95"][0]
    assert run.data.params["a"] == "secret-policy-a" and run.data.tags["stage"] == "blind"
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ["a.report.json", "a.report.md"]
    assert main(["blind", "report", "a.jsonl"]) == 0
    assert len(client.search_runs([run.info.experiment_id])) == 1


def test_a_report_does_not_replace_the_answers_it_reads(answered: Answered, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered({"ann": 8})
    kept = (project / "a.jsonl").rename(project / "people.json").read_bytes()
    assert main(["blind", "report", "people.json", "--no-mlflow", "-o", "people"]) == 1
    assert "people.json is read too" in capsys.readouterr().err and (project / "people.json").read_bytes() == kept


def test_talks_are_in_mlflow_too(project: Path, tracking_uri: str) -> None:
    with AnswerFile(project / "talks.jsonl", print) as file:
        file.add(TalkBegun(at="t", rater="ann", talk_id="1", a="x//1", b="y", left="a"))
        file.add(TalkVerdict(at="t", answer_id="1", rater="ann", talk_id="1", preference="b", confidence=2))
    assert main(["blind", "report", "talks.jsonl"]) == 0
    client = MlflowClient(tracking_uri)
    (run,) = client.search_runs([client.get_experiment_by_name("rlver").experiment_id])
    assert run.data.metrics["talked/0/preferred/win_rate/value"] == 1.0 and run.data.params["talked_0"] == "x//1 (a), y (b)"


def test_a_tracker_that_is_away_is_a_warning(
    answered: Answered, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answered({"ann": 2})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert main(["blind", "report", "a.jsonl"]) == 0
    told = capsys.readouterr()
    assert "not in MLflow: MLflow:" in told.err and "b wins" in told.out
    assert (project / "a.report.json").is_file()


def test_a_file_that_was_cut_off_is_reported_with_a_message(answered: Answered, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered({"ann": 3})
    path = project / "a.jsonl"
    os.truncate(path, path.stat().st_size - 30)
    assert main(["blind", "report", "a.jsonl", "--no-mlflow"]) == 0
    told = capsys.readouterr()
    assert "a.jsonl: the last line was cut off" in told.err and "2 judgements" in told.out


def test_emotions_of_another_appraiser(answered: Answered, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered({"ann": 4})
    for name in ("one", "other"):
        rows = [json.loads(line) for line in (project / f"{name}.jsonl").read_text().splitlines()]
        for row in rows:
            change = -1 if name == "other" else 1
            row["emotion_final"] = 40 + 2 * change
            row["simulator"] = {"kind": "llm-appraiser", "difficulty": "vanilla", "version": "2"}
            for number, turn in enumerate(row["turns"], start=1):
                turn["emotion"], turn["appraisal"]["change"] = 40 + number * change, change
        write_jsonl(project / f"{name}.again.jsonl", rows)
    files = ["--transcripts", "one.again.jsonl", "--transcripts", "other.again.jsonl"]
    assert main(["blind", "report", "a.jsonl", "--no-mlflow", "-o", "again", *files]) == 0
    found = json.loads((project / "again.json").read_text())["compared"]
    assert found["emotion"]["sign"]["value"] == 0.0
    assert found["simulator"] == "scripted, vanilla, secret-version" and found["appraiser"] == "llm-appraiser, vanilla, 2"
    said = capsys.readouterr().out
    assert "b wins 100%" in said and "The emotions are those of another appraiser: llm-appraiser, vanilla, 2\n" in said
    mixed = ["--transcripts", "one.jsonl", "--transcripts", "other.again.jsonl"]
    assert main(["blind", "report", "a.jsonl", "--no-mlflow", "-o", "again", *mixed]) == 1
    assert "scores of different simulators are not comparable" in capsys.readouterr().err
    rows[0]["turns"][0]["assistant"] += " And so on."
    write_jsonl(project / "other.again.jsonl", rows)
    assert main(["blind", "report", "a.jsonl", "--no-mlflow", "-o", "again", *files]) == 1
    assert "--transcripts has other words in 1 of" in capsys.readouterr().err


def test_a_file_of_before_words_were_noted_is_gone_on_with(answered: Answered, project: Path) -> None:
    answered({"ann": 1})
    path = project / "a.jsonl"
    first, *rest = path.read_text().splitlines()
    study = json.loads(first)
    assert all(len(pair.pop("words_a")) == len(pair.pop("words_b")) == 12 for pair in study["pairs"])
    path.write_text("\n".join([json.dumps(study), *rest]) + "\n")
    answered({"ann": 2})
    assert len(path.read_text().splitlines()) > 1 + len(rest)


@pytest.mark.long
def test_a_port_in_use_at_the_named_address_gives_way_to_a_free_one(project: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with server(project, "one.jsonl", "other.jsonl", "--host", "127.0.0.2", "--port", str(port)) as (_, url):
            assert url.startswith("http://127.0.0.2:") and not url.endswith(f":{port}/")


def test_a_server_is_kept_under_its_model_and_a_wrong_option_is_told_before_anything_is_made(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "serve", lambda *_: None)
    with serving_beside(one_model) as beside:
        talk = ["blind", "talk", f"vllm:{beside.url}", f"vllm:{beside.url}"]
        for wrong, message in (
            (["--personas", "nowhere.jsonl"], "no such file"),
            (["--raters", "a" * 41], "a name has 1 to 40"),
            (["--raters", ""], "--raters needs a name"),
        ):
            assert main([*talk, *wrong]) == 1 and message in capsys.readouterr().err
            assert not (project / "blind").exists()
        assert main(talk) == 0
    assert [file.name for file in (project / "blind").iterdir()] == [f"openai-{MODEL}-vs-openai-{MODEL}.jsonl"]


def test_two_servers_whose_models_have_one_name_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving_beside(one_model) as a, serving_beside(one_model) as b:
        assert main(["blind", "talk", f"vllm:{a.url}", f"vllm:{b.url}"]) == 1
    assert f"both servers call their model '{MODEL}', so they could not be told apart: serve one under" in capsys.readouterr().err


def test_what_is_said_to_a_server_is_for_the_owner_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(app: Any, host: str, port: int, say: object) -> None:
        with TestClient(page_guard(app, hosts_of(host, port), None), base_url=f"http://{host}:{port}") as page:
            page.post("/api/message", json=message("what nobody else may read")).raise_for_status()

    monkeypatch.setattr(serving, "serve", serve)
    with serving_beside(one_model) as server:
        assert main(["blind", "talk", f"vllm:{server.url}", f"vllm:{server.url}"]) == 0
    kept = [path for path in project.rglob("*") if path.is_file() and b"what nobody else may read" in path.read_bytes()]
    assert {path.parent.name for path in kept} == {"answers", "blind"} and {path.stat().st_mode & 0o777 for path in kept} == {0o600}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one.jsonl", "nowhere", "--variants", "x", "y"], "name two models with --talk"),
        (["one.jsonl", "nowhere"], "nowhere: neither a transcript file nor a variant"),
        (["one.jsonl", "other.jsonl", "--host", "0.0.0.0"], "every address at once"),
        (["one.jsonl", "other.jsonl", "--host", "example.org"], "--host takes the number"),
        (["talk", "nowhere", "nowhere"], "nowhere: no such model folder"),
        (["report", "nowhere.jsonl"], "nowhere.jsonl: no such file; `rlver blind A B` makes it"),
        (["report", "one.jsonl"], "one.jsonl:1: not an answer"),
    ],
)
def test_what_cannot_be_done_is_one_line(project: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blind", *arguments]) == 1
    told = capsys.readouterr().err
    assert message in told and len(told.splitlines()) == 1


def test_the_commands_explain_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["compare"], ["talk"], ["report"]):
        assert main(["blind", *command, "--help"]) == 0
        assert "Usage: rlver blind" in capsys.readouterr().out
    assert main(["blind", "one.jsonl"]) == 2
    assert "Missing argument 'B'" in capsys.readouterr().err
