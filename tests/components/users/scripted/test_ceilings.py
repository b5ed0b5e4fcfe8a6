"""Only reading the user pays: what can be earned with and without it. The searches are those of benchmarks/ceilings.py, cut short."""

from __future__ import annotations

import pytest

from benchmarks.ceilings import MOVES, best_constants, best_sequences, constant, constant_replies, expected, mean_final, sequence
from rlver.components.domain.persona import Persona
from rlver.components.policy.tiny.supporters import mixed, need_aware, random_strategy
from rlver.components.users.scripted.patterns import SERVING

pytestmark = pytest.mark.no_cover


def test_who_is_told_the_need_ends_above_ninety(unseen: list[Persona]) -> None:
    assert mean_final(need_aware, unseen, "vanilla") >= 95
    assert mean_final(need_aware, unseen, "challenging") >= 90


def test_who_reads_the_cues_comes_close_to_who_is_told(unseen: list[Persona]) -> None:
    assert mean_final(mixed(1.0), unseen, "vanilla") >= 90


def test_random_strategies_end_near_the_published_base(unseen: list[Persona]) -> None:
    assert 8 <= mean_final(random_strategy, unseen, "vanilla") <= 25


@pytest.mark.long
def test_no_constant_reply_reaches_thirty(train: list[Persona], unseen: list[Persona]) -> None:
    replies = constant_replies(seed=1, combined=60)
    assert len(replies) >= 150
    for reply in best_constants(replies, train[:16], "vanilla", keep=3):
        assert mean_final(constant(reply), unseen, "vanilla") < 30, reply


@pytest.mark.long
def test_one_act_in_ever_new_words_stays_below_fifty(unseen: list[Persona]) -> None:
    finals = {act: mean_final(sequence([(act,)]), unseen[:48], "vanilla") for act in SERVING}
    assert max(finals.values()) < 50
    assert min(finals.values()) > 8  # each act is right for somebody


@pytest.mark.long
def test_no_fixed_sequence_of_acts_reaches_fifty(unseen: list[Persona]) -> None:
    best = best_sequences("vanilla", restarts=4, seed=1, keep=3)
    assert expected(best[0], "vanilla") >= max(expected([(act,)] * 10, "vanilla") for act in SERVING)  # the search finds something
    for moves in best:
        assert len(moves) == 10 and set(moves) <= set(MOVES)
        assert mean_final(sequence(moves), unseen, "vanilla") < 50, moves


def test_the_table_of_the_search_agrees_with_real_dialogues(unseen: list[Persona]) -> None:
    moves = (("acknowledge",), *[("deep_empathy",)] * 9)
    assert abs(expected(moves, "vanilla") - mean_final(sequence(moves), unseen, "vanilla")) < 6
