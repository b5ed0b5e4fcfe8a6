"""`rlver personas generate --backend llm` as a user runs it: killed, replayed, out of money, without a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from author import author, base
from ruamel.yaml import YAML
from scripted_server import MODEL, Asked, Reply, Script, Server, good, serving

from rlver.components.personas.schema import validate_file
from rlver.flows.cli import main
from rlver.tasks.runtime.personas import load_split
from rlver.tasks.stages import personas as stage

ROOT = Path(__file__).parents[4]


@contextmanager
def server_of(script: Script) -> Iterator[Server]:
    """A server in a thread of its own, beside commands that have their own event loop."""
    ready, found = threading.Event(), []

    async def serve() -> None:
        async with serving(script) as server:
            ended = asyncio.Event()
            found.append((server, asyncio.get_running_loop(), ended))
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    server, loop, ended = found[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params.yaml in which the model has a price, and no address yet."""
    values = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    values["endpoint"] |= {"prices": {MODEL: {"million_in": 1.0, "million_out": 2.0}}, "concurrency": 4, "attempts": 2}
    values["personas"] |= {"train": 8, "test": 8, "imported_train": "imported/new.jsonl"}
    values["authoring"]["model"] = MODEL
    with (tmp_path / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(values, file)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    for name in ("RLVER_USER_URL", "RLVER_REPLAY", "RLVER_BUDGET"):
        monkeypatch.setenv(name, "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def models(number: int, asked: Asked) -> Reply:
    """The list of models is free; the rest is written well."""
    if asked.path.endswith("/models"):
        return Reply(body=json.dumps({"data": [{"id": MODEL}]}).encode())
    return author(number, asked)


def questions(server: Server) -> list[str]:
    return [base(asked) for asked in server.asked if not asked.path.endswith("/models")]


GENERATE = ["personas", "generate", "--backend", "llm", "--count", "10", "-o", "new.jsonl"]


@pytest.mark.long
def test_a_file_is_written_replayed_and_imported_for_training(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_of(models) as server:
        monkeypatch.setenv("RLVER_USER_URL", server.url)
        assert main(GENERATE) == 0
        assert capsys.readouterr().out == (
            "new.jsonl: 10 personas in 2 new scenarios, from 12 answers\nrejected scenarios: none\nrejected personas: none\n"
        )
        assert len(questions(server)) == 12
    written, report = (project / "new.jsonl").read_bytes(), (project / "new.report.json").read_bytes()
    assert len(load_split(project / "new.jsonl", "train")) == 10 and not list(project.glob("*.unfinished.jsonl"))

    monkeypatch.setenv("RLVER_USER_URL", "")
    answers = (project / "answers" / "personas.db").read_bytes()
    (project / "new.jsonl").unlink()
    assert main([*GENERATE, "--replay"]) == 0
    assert (project / "new.jsonl").read_bytes() == written and (project / "new.report.json").read_bytes() == report
    assert (project / "answers" / "personas.db").read_bytes() == answers
    assert main([*GENERATE, "--replay", "--seed", "8"]) == 1
    assert "run without replay to ask the endpoint" in capsys.readouterr().err

    (project / "imported").mkdir()
    (project / "new.jsonl").rename(project / "imported" / "new.jsonl")
    assert stage.main(["--out", "data", "--metrics", "metrics.json", "--params", "params.yaml"]) == 0
    metrics = json.loads((project / "metrics.json").read_text())
    assert metrics["train"]["personas"] == 10 and set(metrics["overlap"].values()) == {0}


@pytest.mark.long
def test_after_a_kill_no_answered_question_is_paid_again_and_the_file_is_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL when the first scenario's eight personas are on disk; the model writes the last ones slowly."""
    seen: list[str] = []

    def slow_at_the_end(number: int, asked: Asked) -> Reply:
        if asked.path.endswith("/models"):
            return models(number, asked)
        seen.append(base(asked))
        text = json.loads(author(number, asked).body)["choices"][0]["message"]["content"]
        return good(asked, text=text, wait_s=60.0 if len(seen) > 11 else 0.0)

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    unfinished = project / "new.unfinished.jsonl"
    with server_of(slow_at_the_end) as server:
        command = [sys.executable, "-m", "rlver.flows.cli", *GENERATE]
        process = subprocess.Popen(command, cwd=project, env={**environment, "RLVER_USER_URL": server.url}, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 240
        while not unfinished.exists() and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        asked_before = questions(server)
    finished = validate_file(unfinished)
    assert len(finished) == 8 and not (project / "new.jsonl").exists()
    with sqlite3.connect(project / "answers" / "personas.db") as connection:
        stored = {json.loads(request)["messages"][-1][1] for (request,) in connection.execute("SELECT request FROM answers")}
    assert 10 <= len(stored) < 12 and stored <= set(asked_before)

    with server_of(models) as server:
        monkeypatch.setenv("RLVER_USER_URL", server.url)
        assert main(GENERATE) == 0
        assert len(questions(server)) == 12 - len(stored) and not set(questions(server)) & stored
    after = (project / "new.jsonl").read_bytes()
    assert list(validate_file(project / "new.jsonl")[:8]) == list(finished) and not unfinished.exists()

    (project / "answers" / "personas.db").unlink()
    with server_of(models) as server:
        monkeypatch.setenv("RLVER_USER_URL", server.url)
        assert main(GENERATE) == 0
        assert len(questions(server)) == 12
    assert (project / "new.jsonl").read_bytes() == after


def test_a_budget_ends_the_run_and_a_larger_one_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_of(models) as server:
        monkeypatch.setenv("RLVER_USER_URL", server.url)
        assert main([*GENERATE, "--budget", "0.019"]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        paid = len(questions(server))
        assert said.startswith("error: the budget is 0.0190") and "answered calls are kept" in said
        assert 0 < paid < 12 and not (project / "new.jsonl").exists()
        assert main([*GENERATE, "--budget", "1"]) == 0
        assert len(questions(server)) == 12 == len(set(questions(server)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--backend", "llm", "--count", "8"], "no chat endpoint is set: put RLVER_USER_URL="),
        (["--backend", "llm"], "say how many personas with --count"),
        (["--backend", "llm", "--count", "8", "--apart-from", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--count", "8", "--model", "m"], "are for --backend llm"),
        (["--count", "8", "--language", "zh"], "are for --backend llm"),
    ],
)
def test_what_cannot_be_done_is_one_line(project: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert main(["personas", "generate", "-o", "new.jsonl", *options]) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (project / "new.jsonl").exists()


def test_an_unknown_model_is_found_before_anything_is_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_of(models) as server:
        monkeypatch.setenv("RLVER_USER_URL", server.url)
        assert main([*GENERATE, "--model", "model-z"]) == 1
        assert "unknown model 'model-z'" in capsys.readouterr().err and not questions(server)


def test_one_split_of_the_library_goes_into_one_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["personas", "generate", "--count", "8", "--split", "test", "-o", "new.jsonl"]) == 0
    assert main(["personas", "generate", "--train", "8", "--test", "8", "-o", "both"]) == 0
    assert (project / "new.jsonl").read_bytes() == (project / "both" / "test.jsonl").read_bytes()
    assert len(load_split(project / "new.jsonl", "test")) == 8
    kept = (project / "both" / "train.jsonl").read_bytes()
    assert main(["personas", "generate", "--train", "0", "--test", "8", "-o", "both"]) == 2, "nobody can be trained on"
    assert (project / "both" / "train.jsonl").read_bytes() == kept
