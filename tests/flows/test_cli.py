"""The `rlver` command: quick help, readable errors, and the commands that need no model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from rlver.components.domain.files import write_json
from rlver.flows.cli import app, main


def commands(words: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, ...]]:
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands((*words, name), inner)


@pytest.mark.parametrize(
    "arguments",
    [["converse", "--policy", "x", "-o", "y", "--policy", "z"], ["personas", "import", "x", "-o", "y", "-o", "z"]],
    ids=["a command", "of a group"],
)
def test_an_option_of_one_value_stands_once(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "stands more than once" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom rlver.flows.cli import main\nstatus = main(['--help'])\n"
        "heavy = {'torch', 'mlflow', 'prefect', 'transformers', 'trl', 'dvc', 'pandas', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(status or (f'imported {heavy}' if heavy else 0))"
    )
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", list(commands((), typer.main.get_command(app))), ids=lambda words: "-".join(words) or "rlver")
def test_every_command_explains_itself(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    assert f"Usage: {' '.join(('rlver', *words))} " in capsys.readouterr().out


def test_wrong_usage_ends_with_2_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scor"]) == 2
    assert "No such command 'scor'" in capsys.readouterr().err
    assert main(["compare"]) == 2
    assert main(["run", "--stage-hours", "0"]) == 2


def test_an_error_is_one_line_and_debug_adds_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLVER_DEBUG", "0")
    assert main(["report"]) == 1
    assert capsys.readouterr().err == f"error: no dvc.yaml in {tmp_path} or above it: change to the project's folder and try again\n"
    assert main(["report", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlver.components.settings.settings.load_settings", interrupted)
    assert main(["compare", "a", "b"]) == 130
    assert capsys.readouterr().err == "interrupted: what was finished is kept; run the same command again to go on\n"


def test_a_bug_says_that_it_is_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.components.settings.settings.load_settings", lambda *_: {}["absent"])
    assert main(["compare", "a", "b"]) == 1
    assert "error: KeyError: 'absent' (a bug; --debug shows where)" in capsys.readouterr().err


@pytest.mark.long
def test_personas_are_composed_checked_and_refused_when_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["personas", "generate", "-o", str(tmp_path), "--train", "16", "--test", "8"]) == 0
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    assert capsys.readouterr().out == f"{train}: 16 personas\n{test}: 8 personas\n"
    assert main(["personas", "validate", str(train), str(test)]) == 0
    assert f"{train}: 16 personas, all valid" in capsys.readouterr().out

    rows = [json.loads(line) for line in train.read_text().splitlines()]
    rows[3]["age"], rows[5]["hidden_need"] = 7, "applause"
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not json\n")
    assert main(["personas", "validate", str(bad)]) == 1
    complaints = capsys.readouterr().err
    assert "bad.jsonl:4: age: " in complaints and "bad.jsonl:6: hidden_need: " in complaints and "bad.jsonl:17: row: " in complaints
    out = tmp_path / "imported.jsonl"
    assert main(["personas", "import", str(bad), "-o", str(out)]) == 1
    assert "nothing was written" in capsys.readouterr().err and not out.exists()
    assert main(["personas", "import", str(train), "-o", str(out)]) == 0
    assert out.read_bytes() == train.read_bytes(), "our own schema passes unchanged"
    assert main(["personas", "import", str(train), "-o", str(tmp_path / "other.jsonl"), "--split", "test"]) == 1
    assert "16 personas are not of split 'test'" in capsys.readouterr().err and not (tmp_path / "other.jsonl").exists()
    assert main(["personas", "import", str(train), "-o", str(out), "--split", "nonsense"]) == 2


def test_landing_without_a_server_says_how_to_get_one(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["personas", "landed", "params.yaml"]) == 1
    assert "no Prefect server is set: start `rlver ui`" in capsys.readouterr().err
    assert main(["serve-deployments"]) == 1
    assert "no Prefect server is set" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "promote a", "serve-deployments", "personas landed params.yaml"])
def test_a_server_that_is_set_and_does_not_answer_is_one_line_with_what_to_do(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert main(command.split()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the Prefect server at http://127.0.0.1:9/api does not answer (")
    assert line.endswith("): start it (`rlver ui`), or unset PREFECT_API_URL (also in .env)")


def test_report_is_rebuilt_and_its_place_printed(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (toy / "models").mkdir(exist_ok=True)
        (toy / "models" / name).write_text(name)
    assert main(["report"]) == 0
    assert capsys.readouterr().out.endswith(f"report: {toy / 'reports' / 'index.html'}\n")


def test_a_report_with_robustness_is_refused_before_anything_runs(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--robustness", "robustness.json"]) == 1
    assert "robustness.json: no such file; `rlver robustness` writes it" in capsys.readouterr().err
    (toy / "robustness.json").write_text('{"policies": []}')
    assert main(["report", "--robustness", "robustness.json", "-o", "reports"]) == 1
    assert "-o reports: this folder is the pipeline's; name another one" in capsys.readouterr().err
    assert main(["report", "--robustness", "robustness.json", "--paper"]) == 1
    assert "not for the paper's" in capsys.readouterr().err
    assert main(["report", "-o", "mine"]) == 1
    assert "the pipeline's own is in reports/" in capsys.readouterr().err
    assert not (toy / "ran.log").exists()


def turn(emotion: int, change: int) -> dict[str, object]:
    appraisal = {"content": "c", "target": "t", "activity": "a", "feeling": "f", "change": change, "evidence": []}
    return {"user": "hi", "assistant": "hello", "think": None, "emotion": emotion, "appraisal": appraisal}


def transcript(path: Path, changes: dict[str, int]) -> Path:
    rows = []
    for persona, change in changes.items():
        emotions = [40 + change * number for number in range(1, 11) if 10 <= 40 + change * (number - 1) < 100]
        final = max(0, min(100, emotions[-1]))
        stop = "emotion_ceiling" if final >= 100 else "emotion_floor" if final < 10 else "turn_limit"
        rows.append(
            {
                "dialogue_id": f"{path.stem}/{persona}",
                "persona_id": persona,
                "hidden_need": "deep_empathy",
                "policy": path.stem,
                "seed": 7,
                "simulator": {"kind": "scripted", "difficulty": "vanilla", "version": "1"},
                "emotion_start": 40,
                "emotion_final": final,
                "stop_reason": stop,
                "error": None,
                "turns": [turn(max(0, min(100, emotion)), change) for emotion in emotions],
            }
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_transcripts_are_scored_and_compared_by_file_or_variant(
    repository_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """base ends at 0 and 50; tuned at 100 and 60: means 25 and 80, difference +55."""
    monkeypatch.chdir(tmp_path)
    params = ["--params", str(repository_root / "params.yaml")]
    base = transcript(tmp_path / "transcripts" / "base.jsonl", {"p1": -10, "p2": 1})
    tuned = transcript(tmp_path / "transcripts" / "tuned.jsonl", {"p1": 10, "p2": 2})
    assert main(["score", "tuned", "--base", str(base), "-o", "scores.json", *params]) == 0
    said = capsys.readouterr().out
    assert "final emotion  80.0" in said and "to base        +55.0" in said and "success        50%" in said
    assert json.loads((tmp_path / "scores.json").read_text())["emotion_mean"] == 80.0
    assert main(["compare", str(base), str(tuned), *params]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 personas on both sides") and "| 25.00 | 80.00 | +55.00 [" in said
    assert "intervals and p are of these two policies and say nothing about another training" in said
    tuned.rename(tmp_path / "transcripts" / "qwen2.5-0.5b.jsonl")
    assert main(["score", "qwen2.5-0.5b", *params]) == 0
    assert main(["score", "nowhere", *params]) == 1
    assert "neither a transcript file nor a variant" in capsys.readouterr().err


def test_doctor_counts_the_problems(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "BAD  packages: " in said and "     -> " in said, "the toy project has no lock"


@pytest.mark.long
def test_where_to_look_after_a_run(toy: Path, prefect_server: None, tracking_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(toy / "metrics" / "base" / "sentient.json", {"n": 3, "emotion_mean": 20.0, "emotion_ci95": [10, 30]})
    assert main(["run", "--only", "personas"]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 stages ran: personas" in said
    assert "| base | 20.0 [10.0, 30.0] |" in said and f"runs      {tracking_uri} (MLflow)" in said


@pytest.mark.parametrize(
    ("option", "name", "complaint"),
    [
        ("--only", "nope", "unknown stage nope"),
        ("--variants", "nope", "unknown variant nope"),
        ("--only", "", "--only and --variants need a name, got an empty one"),
        ("--variants", ",", "--only and --variants need a name, got an empty one"),
    ],
)
def test_an_unknown_or_empty_name_is_refused_before_a_server_is_asked_or_started(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, option: str, name: str, complaint: str
) -> None:
    monkeypatch.setattr("rlver.tasks.runtime.servers.must_let_us_in", lambda _: pytest.fail("a server was asked"))
    assert main(["run", option, name]) == 1
    assert f"error: {complaint}" in capsys.readouterr().err
