"""`rlver verify`: where a recorded dialogue differs from what its replies give."""

from __future__ import annotations

from pathlib import Path

import pytest
from dialogue_project import complaint, rules_of_ten, write
from fakes import people, scripted_dialogues

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.transcript import StopReason
from rlver.components.formats.foreign import recording_of
from rlver.components.replay.reappraisal import reappraise
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.flows.cli import main


def test_verify_names_file_line_dialogue_turn_expected_and_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    dialogues = scripted_dialogues()
    assert main(["verify", str(write(project / "good.jsonl", dialogues))]) == 0
    capsys.readouterr()
    turn = dialogues[2].turns[1]
    assert turn.appraisal is not None and turn.appraisal.feeling != "bliss"
    rosy = turn.model_copy(update={"appraisal": turn.appraisal.model_copy(update={"feeling": "bliss"})})
    dialogues[2] = dialogues[2].model_copy(update={"turns": (dialogues[2].turns[0], rosy, *dialogues[2].turns[2:])})
    message = complaint(capsys, "verify", write(project / "bad.jsonl", dialogues))
    assert message == (
        f"error: {project}/bad.jsonl:3: dialogue {dialogues[2].dialogue_id}: turn 2: appraisal.feeling: "
        f"expected {turn.appraisal.feeling!r}, found 'bliss'"
    )


def test_verify_takes_no_option_that_would_change_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    good = write(project / "transcripts" / "good.jsonl", scripted_dialogues())
    assert main(["verify", str(project)]) == 0
    capsys.readouterr()
    for option in (["--appraiser", "scripted"], ["--variant", "v"], ["--personas", "other.jsonl"], ["--params", "other.yaml"]):
        assert "a folder is verified with the personas, parameters and appraisers in it" in complaint(capsys, "verify", project, *option)
    said = complaint(capsys, "verify", good, "--appraiser", "distilled:elsewhere")
    assert said == f"error: --appraiser distilled:elsewhere: {good} was appraised by scripted; leave the option out"
    assert main(["verify", str(good), "--appraiser", "scripted"]) == 0


def test_verify_finds_an_impossible_step_a_wrong_stop_and_another_version(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    dialogues = scripted_dialogues(2)
    last = dialogues[1].turns[-1]
    rows = [dialogue.model_dump(mode="json") for dialogue in dialogues]
    rows[1]["turns"][-1]["emotion"] = (last.emotion or 0) + 3
    write_jsonl(project / "step.jsonl", rows)
    message = complaint(capsys, "verify", "step.jsonl")
    assert f"step.jsonl:2: dialogue {dialogues[1].dialogue_id}: turn {len(dialogues[1].turns)}: " in message and "got" in message

    long = next(dialogue for dialogue in scripted_dialogues() if len(dialogue.turns) > 3)
    cut = long.model_copy(update={"turns": long.turns[:3], "emotion_final": long.turns[2].emotion})
    assert "stop.jsonl:1" in complaint(capsys, "verify", write(project / "stop.jsonl", [cut]))

    old = dialogues[0].model_copy(update={"simulator": dialogues[0].simulator.model_copy(update={"version": "scripted-0"})})
    assert "old.jsonl:1: dialogue" in complaint(capsys, "verify", write(project / "old.jsonl", [old]))


def test_verify_tells_how_many_ended_for_a_reason_that_replies_do_not_show(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    whole, long, *_ = sorted(scripted_dialogues(), key=lambda dialogue: len(dialogue.turns))
    cut = long.model_copy(update={"turns": long.turns[:1], "emotion_final": long.turns[0].emotion, "stop_reason": StopReason.CONTEXT_FULL})
    assert len(long.turns) > 1 and main(["verify", str(write(project / "cut.jsonl", [whole, cut]))]) == 0
    assert capsys.readouterr().out.endswith("follows from its replies; 1 ended with a full context, which replies alone cannot confirm\n")
    ended = {"stop_reason": StopReason.FAILED, "emotion_final": None, "error": "PolicyUnavailable: gone"}
    gone = long.model_copy(update={"turns": long.turns[:1], "dialogue_id": "gone", **ended})
    assert main(["verify", str(write(project / "both.jsonl", [cut, gone]))]) == 0
    assert "; 1 ended with a full context and 1 failed, which replies alone cannot confirm\n" in capsys.readouterr().out
    assert main(["verify", str(write(project / "whole.jsonl", [whole, long]))]) == 0
    assert capsys.readouterr().out.endswith("follows from its replies\n")


def test_rules_hold_for_each_dialogue_with_a_user_whatever_stands_beside_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    dialogue = scripted_dialogues(1)[0]
    row = dialogue.model_dump(mode="json") | {"hidden_need": None, "dialogue_id": "other"}
    without = reappraise(recording_of(row, "d"), None, ScriptedAppraiser("vanilla"), EmotionRules(max_turns=10))
    write(project / "mixed.jsonl", [dialogue, without])
    assert main(["verify", "mixed.jsonl"]) == 0
    capsys.readouterr()
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("emotion_start: 40", "emotion_start: 35"))
    assert "mixed.jsonl:1: dialogue" in complaint(capsys, "verify", "mixed.jsonl")


def test_verify_needs_the_personas_of_scripted_dialogues(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules_of_ten(project)
    write(project / "good.jsonl", scripted_dialogues())
    write_jsonl(project / "others.jsonl", [persona.model_dump(mode="json") for persona in people()[0]])
    assert "is not in the personas file" in complaint(capsys, "verify", "good.jsonl", "--personas", "others.jsonl")
    assert "nowhere.jsonl: no such file" in complaint(capsys, "verify", "good.jsonl", "--personas", "nowhere.jsonl")
