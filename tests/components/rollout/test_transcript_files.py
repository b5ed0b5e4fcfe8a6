from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.rollout.transcripts import load_transcripts


def rows(*dialogues) -> list[dict]:
    return [json.loads(dialogue.model_dump_json()) for dialogue in dialogues]


def test_what_was_written_is_read_back(tmp_path: Path, dialogue, failed):
    written = [dialogue("a", [1] * 10), failed("b")]
    write_jsonl(tmp_path / "t.jsonl", rows(*written))
    assert load_transcripts(tmp_path / "t.jsonl", EmotionRules()) == written


def test_a_transcript_of_the_old_form_is_read_and_written_in_the_new_one(tmp_path: Path, failed):
    (row,) = rows(failed("b"))
    assert row["error"] == "context overflow" and "failure" not in row
    write_jsonl(tmp_path / "t.jsonl", [{"failure" if name == "error" else name: value for name, value in row.items()}])
    read = load_transcripts(tmp_path / "t.jsonl", EmotionRules())
    assert read == [failed("b")] and rows(*read) == [row]


def test_each_bad_line_is_one_line_with_file_and_number(tmp_path: Path, dialogue):
    good, impossible = rows(dialogue("a", [1] * 10), dialogue("b", [1] * 10))
    impossible["turns"][3]["emotion"] = 77
    unknown_key = {**good, "mood": 3}
    endless = json.loads(json.dumps(good))
    endless["turns"][0]["appraisal"]["evidence"] = [{"step": "target", "what": "serves_need", "points": float("inf")}]
    path = tmp_path / "t.jsonl"
    cases = [
        ([good, impossible], r"t\.jsonl:2: dialogue b/0: turn 4: emotion 43 with change \+1 gives 44, got 77"),
        ([good, {**good, "emotion_final": 101}], r"t\.jsonl:2: not a dialogue: emotion_final: "),
        ([unknown_key], r"t\.jsonl:1: not a dialogue: mood: "),
        ([endless], r"t\.jsonl:1: .*(finite|Infinity)"),
        ([good, good], r"t\.jsonl:2: dialogue_id a/0 was on line 1 already"),
        ([], r"t\.jsonl: no dialogues"),
    ]
    for content, message in cases:
        write_jsonl(path, content)
        with pytest.raises(BadFile, match=message) as caught:
            load_transcripts(path)
        assert "\n" not in str(caught.value)
    path.write_text(json.dumps(good) + "\n{oops\n")
    with pytest.raises(BadFile, match=r"t\.jsonl:2: not valid JSON"):
        load_transcripts(path)


def test_stops_are_checked_only_under_given_rules(tmp_path: Path, dialogue):
    write_jsonl(tmp_path / "t.jsonl", rows(dialogue("a", [1] * 8)))  # eight turns, as in other people's recordings
    assert len(load_transcripts(tmp_path / "t.jsonl")) == 1
    with pytest.raises(BadFile, match=r"t\.jsonl:1: dialogue a/0: it stopped by turn_limit"):
        load_transcripts(tmp_path / "t.jsonl", EmotionRules())
