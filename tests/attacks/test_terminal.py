"""Names and texts of others hold what a terminal obeys: every command that shows them shows it, and no terminal obeys."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from fakes import people, scripted_dialogues
from ruamel.yaml import YAML

from rlver.components.domain.files import write_json, write_jsonl
from rlver.flows.cli import main
from rlver.tasks.studies.honesty.questions import questions

REPOSITORY = Path(__file__).parents[2]
# Title, clear the screen, colour (C1), clipboard, end of the line above, backspace, delete, right to left, isolate, line separator.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x1b]52;c;b3duZWQ=\x1b\\\x1b[1A\x08\x7f\u202eevil\u2066\u2028\x1bc"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def in_every_text(value: Any, but: frozenset[str]) -> Any:
    """JSON's `value` with the escapes in each text that is free; `but` are the fields with words of this project."""
    if isinstance(value, dict):
        return {key: inner if key in but else in_every_text(inner, but) for key, inner in value.items()}
    if isinstance(value, list):
        return [in_every_text(inner, but) for inner in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


OURS = frozenset({"stop_reason", "simulator", "hidden_need", "step", "what", "points"})


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Transcripts, personas, labels and metrics whose names and texts are all attacks; the current directory."""
    values = YAML(typ="safe").load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    values["evaluation"] |= {"bootstrap_samples": 100}
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    rows = [in_every_text(dialogue.model_dump(mode="json"), OURS) for dialogue in scripted_dialogues()]
    write_jsonl(tmp_path / "a.jsonl", rows)
    write_jsonl(tmp_path / f"b{HOSTILE.replace('/', '')}.jsonl", [{**row, "policy": f"q{HOSTILE}"} for row in rows])
    write_jsonl(tmp_path / "broken.jsonl", [rows[0], {**rows[1], "emotion_final": 3}])
    write_jsonl(tmp_path / "unknown.jsonl", [{**rows[0], f"key{HOSTILE}": HOSTILE}])
    personas = [persona.model_dump(mode="json") for persona in people()[1]]
    write_jsonl(tmp_path / "personas.jsonl", personas)
    told = {"portrait", "background", "name", "occupation", "topic"}
    write_jsonl(tmp_path / "bad.jsonl", [{**one, "persona_id": HOSTILE, "persona_class": HOSTILE, "traits": [HOSTILE]} for one in personas])
    write_jsonl(
        tmp_path / "people.jsonl", [{key: f"{value}{HOSTILE}" if key in told else value for key, value in one.items()} for one in personas]
    )
    labels = [{"user": f"I am sad. {HOSTILE}", "reply": f"Calm down! {HOSTILE}", "acts": []}]
    YAML(typ="safe").dump(labels, tmp_path / "labels.yaml")
    sage = [{"id": HOSTILE, "emo_point": 40, "task": HOSTILE, "history": []}]
    write_jsonl(tmp_path / "sage.jsonl", sage)
    write_json(tmp_path / "robustness.json", {"policies": HOSTILE})
    write_answers(tmp_path / "answers.jsonl")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"I hear you. {HOSTILE}\n/quit\n"))
    return tmp_path


def write_answers(path: Path) -> None:
    """Answers of the honesty study whose policy and words are attacks."""
    head = {"honesty": 1, "policy": f"p{HOSTILE}", "identity": HOSTILE, "temperature": 0.0, "max_answer_tokens": 9, "seed": 7}
    given = [{"item": one.key.item, "condition": one.key.condition, "asked": one.asked, "text": HOSTILE} for one in questions(2)]
    write_jsonl(path, [head, *given])


def other(folder: Path) -> str:
    return next(path.name for path in folder.iterdir() if path.name.startswith("b\x1b"))


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "compare": lambda at: ["compare", "a.jsonl", other(at)],
    "compare of three": lambda at: ["compare", "a.jsonl", other(at), "a.jsonl"],
    "compare with the published": lambda at: ["compare", other(at), "--published"],
    "compare of a broken file": lambda at: ["compare", "broken.jsonl"],
    "score": lambda at: ["score", other(at), "--base", "a.jsonl", "--personas", "personas.jsonl"],
    "score of unknown fields": lambda at: ["score", "unknown.jsonl"],
    "verify": lambda at: ["verify", other(at), "--personas", "personas.jsonl"],
    "appraise": lambda at: ["appraise", other(at), "-o", f"out{HOSTILE.replace('/', '')}.jsonl"],
    "appraise of what is no chat": lambda at: ["appraise", "bad.jsonl", "-o", "out.jsonl", "--skip"],
    "import": lambda at: ["import", "sage", "sage.jsonl", "-o", "out.jsonl"],
    "portrait": lambda at: ["portrait", "a.jsonl", other(at)],
    "judge": lambda at: ["judge", other(at)],
    "audit": lambda at: ["audit", other(at), "--base", "a.jsonl"],
    "consistency": lambda at: ["consistency", other(at), "--personas", "personas.jsonl", "--times", "2"],
    "robustness": lambda at: ["robustness", "--policy", f"{HOSTILE}=models/base", "--personas", "people.jsonl"],
    "latency": lambda at: ["latency", "--policy", HOSTILE, "--personas", "people.jsonl"],
    "chat": lambda at: ["chat", "--as", "supporter", "--personas", "people.jsonl"],
    "chat with nobody": lambda at: ["chat", "--as", "supporter", "--personas", "people.jsonl", "--persona", HOSTILE],
    "converse": lambda at: ["converse", "--policy", f"models/{HOSTILE}", "-o", "out.jsonl", "--personas", "people.jsonl"],
    "personas validate": lambda at: ["personas", "validate", "bad.jsonl", "people.jsonl", "a.jsonl"],
    "personas import": lambda at: ["personas", "import", "bad.jsonl", "-o", "out.jsonl"],
    "simulator acts": lambda at: ["simulator", "acts", "labels.yaml", "--mistakes"],
    "report": lambda at: ["report", "unknown.jsonl", "-o", f"report{HOSTILE.replace('/', '')}"],
    "report with robustness": lambda at: ["report", "a.jsonl", "--robustness", "robustness.json", "-o", "out"],
    "honesty run": lambda at: ["honesty", "run", "--policy", f"models/{HOSTILE}", "-o", "out.jsonl"],
    "honesty score": lambda at: ["honesty", "score", "answers.jsonl", "--before", "answers.jsonl"],
    "blind report": lambda at: ["blind", "report", other(at)],
    "distil": lambda at: ["distil", "unknown.jsonl", "-o", f"folder{HOSTILE.replace('/', '')}"],
    "wrong usage": lambda at: ["compare", f"--{HOSTILE}"],
    "no such command": lambda at: [HOSTILE],
}
SHOW_NAMES = {
    "compare",
    "compare of three",
    "compare with the published",
    "verify",
    "appraise",
    "portrait",
    "judge",
    "chat",
    "honesty score",
}


@pytest.mark.parametrize("named", COMMANDS)
def test_no_command_passes_on_what_a_terminal_obeys(named: str, hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(COMMANDS[named](hostile))
    shown = capsys.readouterr()
    assert (shown.out + shown.err).strip() and "(a bug;" not in shown.err, shown.err
    assert OBEYED.findall(shown.out + shown.err) == []
    if named in SHOW_NAMES:
        assert status == 0 or named == "verify", shown.err
        assert "evil" in shown.out + shown.err, "a command that shows nothing of it proves nothing"


def test_a_command_that_forgets_it_is_no_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def careless(*_: object, **__: object) -> None:
        typer.echo(HOSTILE)
        typer.echo(HOSTILE, err=True)
        print(HOSTILE, file=sys.stderr)
        sys.stdout.writelines([HOSTILE, "\n"])
        logging.getLogger("careless").addHandler(logging.StreamHandler())
        logging.getLogger("careless").warning(HOSTILE)
        raise ValueError(HOSTILE)

    monkeypatch.setattr("rlver.flows.cli.app", careless)
    monkeypatch.setenv("RLVER_DEBUG", "1")
    assert main(["tomorrow"]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("evil") == 2 and shown.err.count("evil") >= 4
    assert OBEYED.findall(shown.out + shown.err) == []


def test_a_stage_is_no_way_out_either(capsys: pytest.CaptureFixture[str]) -> None:
    from rlver.tasks.runtime.stage import run_stage

    def stage() -> int:
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        return 0

    assert run_stage(stage) == 0
    shown = capsys.readouterr()
    assert "evil" in shown.out and "evil" in shown.err and OBEYED.findall(shown.out + shown.err) == []


def on_a_terminal(script: str) -> str:
    """What a terminal gets from a Python process."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm-256color"}
    done = subprocess.Popen((sys.executable, "-c", script), stdout=follower, stderr=follower, stdin=follower, env=surroundings)
    os.close(follower)
    said = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(leader)
    assert done.wait() == 0, said.decode()
    return said.decode()


def test_on_a_terminal_bars_still_draw_and_names_in_them_do_not() -> None:
    said = on_a_terminal(
        "import sys\nfrom tqdm import tqdm\nfrom rlver.tasks.runtime.progress import Steps\nfrom rlver.tasks.runtime.stage import run_stage\n"
        f"def stage():\n    steps = Steps(2, 'judged {HOSTILE.encode('unicode_escape').decode()}')\n    steps.step(), steps.step()\n"
        f"    for _ in tqdm(range(2), desc='loading{HOSTILE.encode('unicode_escape').decode()}'): pass\n    return 0\n"
        "sys.exit(run_stage(stage))"
    )
    assert said.count("\r\x1b[2K") >= 2 and "2/2" in said and "\rloading" in said
    assert OBEYED.findall(re.sub("\r\x1b\\[2K|\r|\x1b\\[0m", "", said)) == []


@pytest.mark.long
def test_bytes_that_no_encoding_holds_are_shown_by_their_number(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [dialogue.model_dump(mode="json") for dialogue in scripted_dialogues()])
    (tmp_path / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    command = (sys.executable, "-m", "rlver.flows.cli", "score", os.fsencode(tmp_path / "no\udcff\udc9bsuch.jsonl"))
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, check=False)
    said = done.stderr.decode("ascii")
    assert done.returncode == 1 and said.startswith("error: ") and len(said.splitlines()) == 1
    assert OBEYED.findall(said) == []


def test_every_command_is_run_by_main_alone() -> None:
    """A console script or test that called `app` itself would go past what `main` sets up."""
    entry = re.search(r'^rlver = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert entry is not None and entry[1] == "rlver.flows.cli:main"
    others = [path for path in (REPOSITORY / "tests").rglob("*.py") if path != Path(__file__)]
    assert [path.name for path in others if re.search(r"\bCliRunner\b|\bapp\(\[", path.read_text(encoding="utf-8"))] == []
