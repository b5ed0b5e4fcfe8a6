"""Time to success and failure, and the score at other caps."""

from __future__ import annotations

import pytest

from rlver.components.domain.thinking import split_thought
from rlver.components.domain.transcript import StopReason
from rlver.components.scoring.behaviour import behaviour
from rlver.components.scoring.course import course
from rlver.components.scoring.units import Sampling


@pytest.fixture
def found(dialogue):
    """Finals 100 after 6 turns, 0 after 4 (below 10 it ends), 50 and 40 after 10."""
    dialogues = [dialogue("a", [10] * 6), dialogue("b", [-10] * 4), dialogue("c", [1] * 10), dialogue("d", [0] * 10)]
    return course(dialogues, Sampling(200, 7))


def test_success_and_failure_compete(found):
    """A quarter each of all four, where Kaplan-Meier, which drops the failed one, would say a third."""
    shares = {name: [found[f"{name}_by_turn"][str(turn)]["value"] for turn in (3, 4, 6, 10)] for name in ("succeeded", "failed")}
    assert shares == {"succeeded": [0, 0, 0.25, 0.25], "failed": [0, 0.25, 0.25, 0.25]}


def test_success_and_failure_are_the_benchmarks_wherever_dialogues_stop(dialogue):
    """With a ceiling of 80 and a floor of 20, dialogues stop there: neither is a success or a failure."""
    stopped = [
        dialogue("a", [10] * 4).model_copy(update={"stop_reason": StopReason.EMOTION_CEILING}),
        dialogue("b", [-10] * 3).model_copy(update={"stop_reason": StopReason.EMOTION_FLOOR}),
    ]
    found = course(stopped, Sampling(200, 7))
    assert [found[name]["4"]["value"] for name in ("succeeded_by_turn", "failed_by_turn")] == [0, 0]


def test_a_lower_cap_pays_what_was_reached_by_then(found):
    """At 6 turns 100, 0, 46, 40; at 8 turns 48 instead of 46; at 10 turns 50."""
    assert [found["emotion_by_cap"][cap]["value"] for cap in ("6", "8", "10")] == [46.5, 47, 47.5]


def test_beyond_their_own_limit_nothing_is_known_of_dialogues(dialogue):
    cut = [dialogue(name, [1] * 6).model_copy(update={"stop_reason": StopReason.TURN_LIMIT}) for name in "abc"]
    by_cap = course([*cut, dialogue("d", [10] * 6)], Sampling(200, 7))["emotion_by_cap"]
    assert by_cap["6"]["value"] is not None and by_cap["8"]["value"] is by_cap["10"]["value"] is None
    assert by_cap["10"]["reason"] == "dialogues were cut at 6 turns"


def test_a_reply_without_its_thought_costs_the_dialogue(dialogue):
    def thinking(one, thoughts):
        turns = tuple(turn.model_copy(update={"think": think}) for turn, think in zip(one.turns, thoughts, strict=True))
        return one.model_copy(update={"turns": turns})

    both = [thinking(dialogue("a", [10, 10]), ["hm", "hm"]), thinking(dialogue("b", [10, 10]), ["hm", None])]
    assert course(both, Sampling(200, 7))["emotion_gated"]["value"] == 30, "60 and 0"
    once = [thinking(dialogue("a", [10, 10]), [None, None]), thinking(dialogue("b", [10, 10]), ["hm", None])]
    assert course(once, Sampling(200, 7))["emotion_gated"]["value"] is None, "a direct policy, one reply of which has a thought"
    silent = [thinking(one, [None, None]) for one in both]
    assert course(silent, Sampling(200, 7))["emotion_gated"]["value"] is None


def test_a_malformed_reply_is_gated_though_its_text_is_kept_as_a_thought(dialogue):
    """As `split_thought` has it: one pair of tags too many, or none, and the user gets silence."""

    def turns(one, texts, thinking):
        said = [split_thought(text, thinking) for text in texts]
        return one.model_copy(
            update={
                "turns": tuple(
                    turn.model_copy(update={"think": s.think, "assistant": s.reply}) for turn, s in zip(one.turns, said, strict=True)
                )
            }
        )

    good, doubled = "<think>hm</think>I hear you.", "<think>hm</think>I hear<think>you.</think>"
    both = [turns(dialogue("a", [10, 10]), [good, good], True), turns(dialogue("b", [10, 10]), [good, doubled], True)]
    assert course(both, Sampling(200, 7))["emotion_gated"]["value"] == 30, "60 and 0, as in training"
    assert behaviour(both, Sampling(200, 7))["replies_with_thought"]["value"] == 0.75
    broken = [turns(dialogue(name, [10, 10]), [doubled, doubled], True) for name in "ab"]
    assert course(broken, Sampling(200, 7))["emotion_gated"]["value"] == 0, "it thinks, and no reply is well-formed"
    direct = [turns(dialogue("a", [10]), ["I hear you."], False), turns(dialogue("b", [10]), ["<think> I hear you."], False)]
    assert course(direct, Sampling(200, 7))["emotion_gated"]["value"] is None, "a stray tag is no thought"
