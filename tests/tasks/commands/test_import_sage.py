"""`rlver import sage`: recorded dialogues come in whole or not at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from dialogue_project import complaint

from rlver.components.domain.files import write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main

SAGE = {
    "id": "one", "emo_point": 35, "task": "你希望对方能够深度共情你的感受",
    "history": [
        {"role": "user", "content": "唉", "emotion-point": 40},
        {"role": "assistant", "content": "怎么了"},
        {"role": "user", "content": "没事", "emotion-point": 35,
         "planning": {"content": "c", "TargetCompletion": "t", "activity": "a", "analyse": "f", "change": -5}},
        {"role": "assistant", "content": "好吧"},
    ],
}  # fmt: skip


def test_recorded_sage_dialogues_come_in_plain_or_packed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps(SAGE, ensure_ascii=False) + "\n"
    (project / "model-4.5.jsonl").write_text(line, encoding="utf-8")
    (project / "model-4.5.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    for source in ("model-4.5.jsonl", "model-4.5.jsonl.gz"):
        assert main(["import", "sage", source, "-o", f"{source}.out"]) == 0
        assert "1 last replies that were never judged are left out" in capsys.readouterr().out
    assert (project / "model-4.5.jsonl.out").read_bytes() == (project / "model-4.5.jsonl.gz.out").read_bytes()
    (dialogue,) = load_transcripts(project / "model-4.5.jsonl.out")
    assert (dialogue.policy, dialogue.dialogue_id, dialogue.emotion_final) == ("model-4.5", "model-4.5/one", 35)
    assert "its user was sage" in complaint(capsys, "verify", "model-4.5.jsonl.out")
    assert main(["import", "sage", "model-4.5.jsonl", "-o", "named.jsonl", "--policy", "someone"]) == 0
    assert load_transcripts(project / "named.jsonl")[0].policy == "someone"


def test_a_bad_sage_record_is_named_and_nothing_is_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "sage.jsonl", [SAGE, {**SAGE, "emo_point": 99}])
    assert "sage.jsonl:2: emo_point: the last emotion is 35, got 99" in complaint(capsys, "import", "sage", "sage.jsonl", "-o", "out.jsonl")
    write_jsonl(project / "sage.jsonl", [SAGE, SAGE])
    assert "appears more than once" in complaint(capsys, "import", "sage", "sage.jsonl", "-o", "out.jsonl")
    assert "looks like a recorded SAGE dialogue" in complaint(capsys, "appraise", "sage.jsonl", "-o", "out.jsonl")
    assert not (project / "out.jsonl").exists()
