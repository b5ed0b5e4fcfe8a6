"""`rlver consistency` with files, and with a model behind a real server: every repeat is paid once and is real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import scripted_dialogues
from llm_project import make_llm_project

from benchmarks.llm_server import counts, running
from rlver.components.domain.files import write_jsonl
from rlver.flows.cli import main


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> Path:
    """Three dialogues of three turns with scripted users; the current directory."""
    make_llm_project(tmp_path)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    short = [one.model_copy(update={"turns": one.turns[:3], "emotion_final": one.turns[2].emotion}) for one in scripted_dialogues(count=3)]
    write_jsonl(tmp_path / "a.jsonl", [one.model_dump(mode="json") for one in short])
    monkeypatch.chdir(tmp_path)
    for name, value in (("RLVER_USER_URL", server), ("RLVER_REPLAY", ""), ("RLVER_BUDGET", "")):
        monkeypatch.setenv(name, value)
    return tmp_path


COMMAND = ["consistency", "a.jsonl", "--personas", "test.jsonl", "-o", "out.json"]


def test_the_scripted_appraiser_is_exact(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--times", "3"]) == 0
    shown = capsys.readouterr().out
    assert "scripted:vanilla: 3 dialogues, every reply asked about 3 times" in shown
    assert "| asked again, exactly the same | 9 | 18 (0) | 0.00 [0.00, " in shown
    told = json.loads((project / "out.json").read_text())
    assert [(row["probe"], row["exact"]) for row in told["probes"]] == [
        ("asked again", True), ("context reordered", True), ("persona paraphrased", True),
    ]  # fmt: skip


def test_a_model_is_asked_anew_for_every_repeat_and_only_once(
    project: Path, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = [*COMMAND, "--appraiser", "llm", "--variant", "v", "--times", "3"]
    before = counts(server)
    assert main(model) == 0
    first, after = capsys.readouterr().out, counts(server)
    calls = 9 * (3 + 1) + 3
    assert after["calls"] - before["calls"] == calls and f"{calls} calls, 0 retries, 0 cached" in first
    assert set(after["asked"].values()) == {1}, "no question was put twice"
    told = json.loads((project / "out.json").read_text())
    assert (told["appraiser"], told["times"]) == ("llm:user-model", 3)
    assert all(not row["exact"] and row["variance"]["value"] > 0 for row in told["probes"])

    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:9/v1")
    assert main([*model, "--replay"]) == 0
    assert capsys.readouterr().out.splitlines()[:6] == first.splitlines()[:6], "the stored answers say the same"
    assert counts(server)["calls"] == after["calls"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--appraiser", "oracle"], "unknown appraiser 'oracle': choose "),
        (["--appraiser", "scripted:brutal"], "unknown difficulty 'brutal'"),
        (["--personas", "train.jsonl"], "is not in train.jsonl; name its file (--personas)"),
        (["--appraiser", "llm"], "kind is llm, so llm.appraiser.model must name models"),
    ],
)
def test_what_cannot_be_asked_is_told(project: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    command = [*COMMAND[: COMMAND.index("--personas")], *COMMAND[COMMAND.index("--personas") + 2 :]] if "--personas" in options else COMMAND
    assert main([*command, *options]) == 1
    assert message in capsys.readouterr().err
    assert not (project / "out.json").exists()


def test_words_that_the_appraiser_cannot_read_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = scripted_dialogues(count=1)
    chinese = tuple(turn.model_copy(update={"user": "我很难过。", "assistant": "我在听。"}) for turn in first.turns)
    write_jsonl(project / "a.jsonl", [first.model_copy(update={"turns": chinese}).model_dump(mode="json")])
    assert main(COMMAND) == 1
    assert f"{first.dialogue_id}: the scripted appraiser reads English only" in capsys.readouterr().err
