"""Recorded SAGE dialogues: hand-made records in their format, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from components.dialogue.sage import UnreadableRecord, dialogue_of, has_unjudged_reply
from components.dialogue.transcript import StopReason
from components.evaluation.arithmetic import check_arithmetic
from components.evaluation.sentient import sentient_metrics

RECORDED = Path(__file__).parents[2] / ".." / "shared" / "data" / "sage"
# mean, successes and failures as the SAGE paper prints them for its nine policies (METHOD of the data set)
PUBLISHED = {
    "gpt-4.5": (62.70, 23, 15),
    "claude3.7": (54.80, 19, 24),
    "deepseek-v3-0324": (54.40, 19, 23),
    "deepseek-v3-1227": (37.55, 5, 39),
    "openai-o4mini": (35.85, 10, 48),
    "llama3.3-70b": (33.25, 7, 47),
    "gemini2.0-flash": (32.92, 8, 45),
    "gpt-4o-0808": (31.75, 7, 51),
    "qwen2.5-72b": (19.10, 4, 70),
}


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


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded SAGE dialogues are not beside this checkout (../shared/data/sage)")
@pytest.mark.parametrize("policy", list(PUBLISHED))
def test_the_recorded_dialogues_give_the_published_scores(policy: str) -> None:
    with gzip.open(RECORDED / f"{policy}.jsonl.gz", "rt", encoding="utf-8") as file:
        dialogues = [dialogue_of(json.loads(line), policy) for line in file]
    for dialogue in dialogues:
        check_arithmetic(dialogue)
    metrics = sentient_metrics(dialogues, None, 100, 1, classes=None, settings_digest="")
    mean, successes, failures = PUBLISHED[policy]
    assert metrics["n"] == 100
    assert metrics["emotion_mean"] == pytest.approx(mean, abs=0.005)
    assert (round(metrics["success_rate"] * 100), round(metrics["failure_rate"] * 100)) == (successes, failures)
    assert len(metrics["by_need"]) == 8
