"""Recorded SAGE dialogues: hand-made records in their format, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fakes import a_dialogue

from rlver.components.domain.emotion import check_arithmetic
from rlver.components.domain.transcript import Dialogue, StopReason
from rlver.components.formats.sage import UnreadableRecord, dialogue_of, has_unjudged_reply
from rlver.components.report.wording import SAGE_PERSONAS, SAGE_TABLE_3, PublishedRow
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main

RECORDED = Path(__file__).parents[3] / ".." / "shared" / "data" / "sage"


def record(changes: list[int], *, unjudged: bool = False, **other: Any) -> dict[str, Any]:
    """A record in SAGE's format whose numbers fit."""
    emotion = 40
    history: list[dict[str, Any]] = [{"role": "user", "content": "u0", "emotion-point": 40}]
    for number, change in enumerate(changes, start=1):
        emotion = max(0, min(100, emotion + change))
        planning = {name: f"Heading]\n{name} {number}" for name in ("content", "TargetCompletion", "activity", "analyse")}
        history += [
            {"role": "assistant", "content": f"r{number}"},
            {
                "role": "user",
                "content": f"u{number}",
                "thinking": "…",
                "emotion-point": emotion,
                "planning": {**planning, "change": change},
            },
        ]
    if unjudged:
        history.append({"role": "assistant", "content": "nobody judged this"})
    return {"id": "one", "emo_point": emotion, "task": "你希望对方能够深度共情你的感受", "history": history, **other}


def test_a_record_becomes_turns_whose_judgement_stood_on_the_next_message() -> None:
    dialogue = dialogue_of(record([5, -10]), "someone")
    assert (dialogue.dialogue_id, dialogue.persona_id, dialogue.policy) == ("someone/one", "one", "someone")
    assert dialogue.hidden_need == "deep_empathy"
    assert [(turn.user, turn.assistant, turn.emotion) for turn in dialogue.turns] == [("u0", "r1", 45), ("u1", "r2", 35)]
    appraisal = dialogue.turns[1].appraisal
    assert appraisal is not None
    assert (appraisal.content, appraisal.target) == ("content 2", "TargetCompletion 2")
    assert (appraisal.activity, appraisal.feeling, appraisal.change) == ("activity 2", "analyse 2", -10)
    check_arithmetic(dialogue)


@pytest.mark.parametrize(
    ("changes", "unjudged", "stop", "final"),
    [
        ([10] * 6, False, StopReason.EMOTION_CEILING, 100),
        ([-10] * 4, False, StopReason.EMOTION_FLOOR, 0),
        ([5] * 9, True, StopReason.TURN_LIMIT, 85),
        ([5] * 3, False, StopReason.GOODBYE, 55),
    ],
)
def test_why_it_ended(changes: list[int], unjudged: bool, stop: StopReason, final: int) -> None:
    given = record(changes, unjudged=unjudged)
    dialogue = dialogue_of(given, "p")
    assert (dialogue.stop_reason, dialogue.emotion_final, len(dialogue.turns)) == (stop, final, len(changes))
    assert has_unjudged_reply(given) is unjudged


def test_a_thought_that_only_copies_the_reply_is_none() -> None:
    given = record([5, 5])
    given["history"][1]["think"] = "r1"
    given["history"][3]["think"] = "a real thought"
    assert [turn.think for turn in dialogue_of(given, "p").turns] == [None, "a real thought"]


def broken(path: list[Any], value: Any) -> dict[str, Any]:
    given = record([5, 5])
    place: Any = given
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (broken(["history"], []), "history: is empty"),
        (broken(["history"], None), "history: expected list, got NoneType"),
        (broken(["history", 1, "role"], "user"), "message 2 must be the assistant's"),
        (broken(["history", 2, "emotion-point"], 90), r"user message 2: the change \+5 gives emotion 45, got 90"),
        (broken(["history", 2, "planning", "change"], 11), "user message 2: the change must be -10..10, got 11"),
        (broken(["history", 2, "planning", "change"], "5"), "change: expected int, got str"),
        (broken(["history", 2, "planning"], None), "planning: expected dict"),
        (broken(["emo_point"], 51), "emo_point: the last emotion is 50, got 51"),
        (broken(["task"], "something else"), "fits 0 hidden needs"),
        (record([]), "no reply was ever judged"),
    ],
)
def test_a_record_that_does_not_fit_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dialogue_of(given, "p")


def test_what_is_refused_is_an_unreadable_record() -> None:
    with pytest.raises(UnreadableRecord):
        dialogue_of({}, "p")


def test_the_record_is_in_the_transcript_with_every_field_it_had() -> None:
    given = record([5, -10], unjudged=True, topic="t", player="p", unheard_of={"a": [1, None]})
    dialogue = Dialogue.model_validate_json(dialogue_of(given, "someone").model_dump_json())
    assert dialogue.original == given
    assert dialogue_of(dialogue.original, "someone") == dialogue
    assert "original" not in a_dialogue("d", [1]).model_dump(), "dialogues that were held here have no other record"


@pytest.mark.long
@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded SAGE dialogues are not beside this checkout (../shared/data/sage)")
@pytest.mark.parametrize("published", SAGE_TABLE_3, ids=lambda row: row.name)
def test_recorded_dialogues_come_in_whole_and_give_the_published_scores(
    published: PublishedRow, tmp_path: Path, repository_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """METHOD's table of the nine policies, to its last digit; and the source's bytes out of what was imported."""
    source, out, scores = RECORDED / f"{published.name}.jsonl.gz", tmp_path / "out.jsonl", tmp_path / "scores.json"
    assert main(["import", "sage", str(source), "-o", str(out)]) == 0
    assert main(["score", str(out), "-o", str(scores), "--params", str(repository_root / "params.yaml")]) == 0
    measured = json.loads(scores.read_text())
    assert (measured["n"], measured["failed_dialogues"], len(measured["by_need"])) == (SAGE_PERSONAS, 0, 8)
    assert (measured["emotion_mean"], measured["success_rate"], measured["failure_rate"]) == published[1:]
    assert f"{published.emotion_mean:.1f}" in capsys.readouterr().out
    dialogues = load_transcripts(out)
    assert {dialogue.policy for dialogue in dialogues} == {published.name}
    assert "".join(json.dumps(dialogue.original, ensure_ascii=False) + "\n" for dialogue in dialogues).encode() == gzip.decompress(
        source.read_bytes()
    )
