"""`rlver converse`: what it writes, what it refuses, and that an interruption loses nothing that was finished."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from dialogue_project import complaint
from fakes import people
from ruamel.yaml import YAML

from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main


def test_converse_holds_a_dialogue_with_everybody_and_verify_derives_them_again(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["converse", "--policy", str(micro_policy), "-o", "a.jsonl"]) == 0
    shown = capsys.readouterr()
    assert "a.jsonl: 8 dialogues, final emotion" in shown.out
    assert "8/8  emotion" in shown.err and "ETA 0:00" in shown.err
    dialogues = load_transcripts(project / "a.jsonl")
    assert [dialogue.persona_id for dialogue in dialogues] == [persona.persona_id for persona in people()[1]]
    assert all(dialogue.policy == "micro" and len(dialogue.turns) == 3 for dialogue in dialogues)
    assert "must not rank" not in shown.err
    assert main(["converse", "--policy", f"hf:{micro_policy}", "-o", "b.jsonl", "--limit", "5"]) == 0
    assert "the scripted user misses most acts in free English" in capsys.readouterr().err
    assert (project / "b.jsonl").read_text().splitlines() == (project / "a.jsonl").read_text().splitlines()[:5]
    assert main(["verify", "a.jsonl"]) == 0
    assert "8 dialogues, 24 appraisals" in capsys.readouterr().out
    assert not list(project.glob("*.partial"))


def test_without_the_test_personas_it_says_how_they_are_made(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(project / "data")
    said = complaint(capsys, "converse", "--policy", "openai:nobody", "-o", "a.jsonl")
    assert "test.jsonl: no such file; `rlver run --only personas` makes the test personas" in said


@pytest.mark.long
def test_an_interrupted_converse_goes_on_where_it_was_and_ends_in_the_same_file(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlver.tasks.runtime.progress import DialogueProgress

    assert main(["converse", "--policy", str(micro_policy), "-o", "whole.jsonl"]) == 0
    count = DialogueProgress.add
    held: list[str] = []

    def press_ctrl_c(self: DialogueProgress, dialogue: Dialogue, held_now: bool = True) -> None:
        count(self, dialogue, held_now)
        held.append(dialogue.dialogue_id)
        if len(held) == 4:
            signal.raise_signal(signal.SIGINT)

    command = ["converse", "--policy", str(micro_policy), "-o", "out.jsonl"]
    with monkeypatch.context() as patch:
        patch.setattr(DialogueProgress, "add", press_ctrl_c)
        assert main(command) == 130
    assert "run the same command again" in capsys.readouterr().err
    assert not (project / "out.jsonl").exists()
    partial = (project / "out.jsonl.partial").read_text().splitlines()
    assert 5 <= len(partial) <= 1 + 6
    again: list[bool] = []
    with monkeypatch.context() as patch:
        patch.setattr(DialogueProgress, "add", lambda self, dialogue, held_now=True: again.append(held_now))
        assert main(command) == 0
    assert sorted(again) == [False] * (len(partial) - 1) + [True] * (9 - len(partial))
    assert (project / "out.jsonl").read_bytes() == (project / "whole.jsonl").read_bytes()
    assert not (project / "out.jsonl.partial").exists()


def test_a_partial_file_of_other_parameters_is_not_continued(project: Path, micro_policy: Path) -> None:
    (project / "out.jsonl.partial").write_text('{"fingerprint": "of something else"}\n{"dialogue_id": "x"}\n')
    assert main(["converse", "--policy", str(micro_policy), "-o", "out.jsonl", "--limit", "2"]) == 0
    assert len(load_transcripts(project / "out.jsonl")) == 2


def test_converse_takes_another_difficulty(project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["converse", "--policy", str(micro_policy), "-o", "out.jsonl", "--limit", "1", "--simulator", "scripted", "--difficulty"]
    assert main([*command, "challenging"]) == 0
    assert load_transcripts(project / "out.jsonl")[0].simulator.difficulty == "challenging"
    capsys.readouterr()
    before = (project / "out.jsonl").read_bytes()
    assert "there is no difficulty 'brutal'" in complaint(capsys, *command, "brutal")
    assert (project / "out.jsonl").read_bytes() == before


def test_too_many_failures_leave_no_transcript(project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "params.yaml"
    values = YAML(typ="safe").load(path.read_text())
    values["policy"]["max_context_tokens"] = 70  # not even a first reply fits
    YAML(typ="safe").dump(values, path)
    message = complaint(capsys, "converse", "--policy", micro_policy, "-o", "out.jsonl")
    assert "of 8 dialogues failed (allowed: 5%)" in message and "ContextFull" in message
    assert not (project / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("models/none", "models/none: no such model folder (a model of the hub is written hf:NAME, one behind a server openai:MODEL)"),
        ("data", "cannot load a policy from data"),
    ],
)
def test_converse_without_a_model_says_so(policy: str, message: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in complaint(capsys, "converse", "--policy", policy, "-o", "out.jsonl")
    assert not (project / "out.jsonl").exists()


def test_a_model_without_a_chat_template_or_with_too_short_a_context_is_refused_in_one_line(
    project: Path, micro_policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(micro_policy, project / "plain")
    template = project / "plain" / "chat_template.jinja"
    template.write_text(template.read_text().replace("<|end|>", "."))
    assert "does not end turns with '<|end|>'" in complaint(capsys, "converse", "--policy", "plain", "-o", "out.jsonl")
    template.unlink()
    assert "plain: the tokenizer has no chat template" in complaint(capsys, "converse", "--policy", "plain", "-o", "out.jsonl")
    path = project / "params.yaml"
    values = YAML(typ="safe").load(path.read_text())
    values["policy"]["max_context_tokens"] = 5000
    YAML(typ="safe").dump(values, path)
    message = complaint(capsys, "converse", "--policy", micro_policy, "-o", "out.jsonl")
    assert "policy.max_context_tokens is 5000, but the model reads 1536 tokens at most" in message
    assert not (project / "out.jsonl").exists()
