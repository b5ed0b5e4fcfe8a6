"""After the seal is broken, every command that reads the sealed test leaves a line in the record that stands in git."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.schema import validate_file
from rlver.flows.cli import main
from rlver.tasks.runtime.sealed_record import OPENINGS, counted

PERSONAS, TRANSCRIPTS = Path("imported/sealed.jsonl"), Path("sealed.jsonl")
DialogueOf = Callable[..., Dialogue]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path, dialogue: DialogueOf) -> Path:
    """Eight sealed personas and a dialogue with each, of the policy `tuned`."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(("git", "init", "-q"), check=True)
    (tmp_path / "params.yaml").symlink_to(repository_root / "params.yaml")
    assert main(["personas", "unseal", "-o", str(PERSONAS), "--count", "8", "--why", "the table of the paper"]) == 0
    held = [_held(dialogue(one.persona_id, [0] * 10)) for one in validate_file(PERSONAS)]
    TRANSCRIPTS.write_text("".join(f"{one.model_dump_json()}\n" for one in held), encoding="utf-8")
    return tmp_path


def _held(dialogue: Dialogue) -> Dialogue:
    """In English, or nobody appraises it again."""
    turns = tuple(turn.model_copy(update={"user": "I am so tired of all this.", "assistant": "I am here."}) for turn in dialogue.turns)
    return dialogue.model_copy(update={"policy": "tuned", "turns": turns})


def lines() -> list[dict[str, str]]:
    return list(csv.DictReader(OPENINGS.open(encoding="utf-8")))


def looks() -> list[tuple[str, str, str]]:
    return [(one["opening"], one["personas"], one["why"]) for one in lines() if one["opening"].startswith("look")]


def test_unsealing_itself_is_no_look(opened: Path) -> None:
    assert [one["opening"] for one in lines()] == ["1"]


def test_each_command_that_reads_it_is_a_numbered_dated_line_with_the_policy(opened: Path) -> None:
    """The second reads personas first, who name no policy, and dialogues then: it is one look all the same."""
    assert main(["score", str(TRANSCRIPTS)]) == 0
    assert main(["score", str(TRANSCRIPTS), "--personas", str(PERSONAS)]) == 0
    assert main(["personas", "validate", str(PERSONAS)]) == 0
    assert main(["personas", "import", str(PERSONAS), "-o", "copy.jsonl"]) == 0
    assert main(["appraise", str(TRANSCRIPTS), "-o", "again.jsonl"]) == 0
    assert looks() == [
        ("look 1", "8", "looked at by rlver score, tuned"),
        ("look 2", "8", "looked at by rlver score, tuned"),
        ("look 3", "8", "looked at by rlver personas validate, no policy named"),
        ("look 4", "8", "looked at by rlver personas import, no policy named"),
        ("look 5", "8", "looked at by rlver appraise, tuned"),
    ]
    assert {one["date"] for one in lines()} == {lines()[0]["date"]} and lines()[0]["why"] == "the table of the paper"


@pytest.mark.long
def test_a_stage_is_counted_too(opened: Path, repository_root: Path) -> None:
    stage = "score --variant base --difficulty vanilla --out out.json"
    files = ["--transcripts", str(TRANSCRIPTS), "--base", str(TRANSCRIPTS), "--personas", str(PERSONAS)]
    params = ["--params", str(repository_root / "params.yaml")]
    done = subprocess.run(
        (sys.executable, "-m", *f"rlver.tasks.stages.{stage}".split(), *files, *params), capture_output=True, text=True, check=False
    )
    assert looks() == [("look 1", "8", "looked at by stage score, tuned")], done.stderr


def test_other_personas_are_no_look_and_a_refused_file_is_none(opened: Path, dialogue: DialogueOf) -> None:
    Path("test.jsonl").write_text(f"{dialogue('en-test-0001-0a1b2c3d4e', [5]).model_dump_json()}\n", encoding="utf-8")
    assert main(["score", "test.jsonl"]) == 0
    Path("bad.jsonl").write_text(TRANSCRIPTS.read_text("utf-8") + "{}\n", encoding="utf-8")
    assert main(["score", "bad.jsonl"]) == 1
    assert looks() == []


def test_looks_stand_in_the_record_of_a_folder_above_and_wait_for_git_like_openings(
    opened: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (("add", "."), ("commit", "-qm", "opened")):
        subprocess.run(("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments), check=True)
    (opened / "deeper").mkdir()
    monkeypatch.chdir(opened / "deeper")
    assert main(["score", "../sealed.jsonl", "--params", "../params.yaml"]) == 0
    monkeypatch.chdir(opened)
    assert [one[0] for one in looks()] == ["look 1"] and not (opened / "deeper" / OPENINGS).exists()
    again = ["personas", "unseal", "-o", "more.jsonl", "--count", "8", "--why", "a second table"]
    assert main(again) == 1 and "an earlier opening or look is not in git yet" in capsys.readouterr().err
    subprocess.run(("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qam", "looked"), check=True)
    assert main(again) == 0
    assert [one["opening"] for one in lines()] == ["1", "look 1", "2"], "a look is no opening"


def test_a_look_that_cannot_be_written_down_is_refused(opened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    OPENINGS.unlink()
    OPENINGS.mkdir()
    assert main(["score", str(TRANSCRIPTS)]) == 1
    assert "error:" in capsys.readouterr().err


@pytest.mark.long
def test_processes_at_once_get_a_line_each(opened: Path) -> None:
    with ProcessPoolExecutor(3) as several:
        list(several.map(_look, range(6)))
    assert sorted(one[0] for one in looks()) == [f"look {number}" for number in range(1, 7)]


def _look(number: int) -> None:
    with counted(f"reader {number}"):
        validate_file(PERSONAS)


def test_without_a_command_nothing_is_written(opened: Path) -> None:
    """As in a notebook; docs/evaluation-details.md says so."""
    assert validate_file(PERSONAS) and json.loads(TRANSCRIPTS.read_text().splitlines()[0])["policy"] == "tuned"
    assert looks() == []
