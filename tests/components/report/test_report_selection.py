"""Which dialogues are shown first."""

from __future__ import annotations

from random import Random

from report_run import make_dialogue, make_failed

from rlver.components.domain.transcript import Dialogue
from rlver.components.report.dialogues import best_median_worst, same_persona_pairs


def ending_at(emotion: int, number: int = 0, turns: int | None = None) -> Dialogue:
    """Only what ranking reads: final emotion, length, ids."""
    dialogue = make_dialogue("p", number, 0.5, Random(3))
    kept = dialogue.turns[: turns if turns is not None else len(dialogue.turns)]
    return dialogue.model_copy(update={"emotion_final": emotion, "turns": kept})


def test_best_median_and_worst_go_by_the_final_emotion():
    chosen = best_median_worst([ending_at(50, 1), ending_at(90, 2), ending_at(20, 3), ending_at(70, 4), ending_at(60, 5)])
    assert [(one.label, one.dialogue.emotion_final) for one in chosen] == [("best", 90), ("median", 60), ("worst", 20)]


def test_of_an_even_number_the_lower_middle_is_the_median():
    chosen = best_median_worst([ending_at(emotion, emotion) for emotion in (10, 20, 30, 40)])
    assert chosen[1].dialogue.emotion_final == 20


def test_among_equals_the_shorter_dialogue_is_the_better_one():
    chosen = best_median_worst([ending_at(100, 1, turns=9), ending_at(100, 2, turns=6), ending_at(100, 3, turns=8)])
    assert [len(one.dialogue.turns) for one in chosen] == [6, 8, 9]


def test_a_failed_dialogue_has_no_rank_and_nothing_is_shown_twice():
    chosen = best_median_worst([make_failed("p", 1), ending_at(30, 2)])
    assert [(one.label, one.dialogue.emotion_final) for one in chosen] == [("best", 30)]
    assert best_median_worst([make_failed("p", 1)]) == []


def test_pairs_show_the_largest_the_median_and_the_smallest_gain_of_the_same_persona():
    base = [ending_at(20, number) for number in range(5)]
    tuned = [ending_at(20 + gain, number) for number, gain in enumerate((30, -10, 60, 5, 40))]
    pairs = same_persona_pairs(base, [*tuned, ending_at(99, 77)])
    assert [(pair.label, pair.gain) for pair in pairs] == [("largest gain", 60), ("median gain", 30), ("smallest gain", -10)]
    assert all(pair.before.persona_id == pair.after.persona_id for pair in pairs)


def test_a_persona_that_failed_on_one_side_makes_no_pair():
    assert same_persona_pairs([make_failed("base", 1)], [ending_at(50, 1)]) == []
