"""An endpoint that fails three times in ten, and a client that is killed halfway: the bars of benchmarks/endpoint_faults.py, in small."""

from __future__ import annotations

import pytest

from benchmarks.endpoint_faults import run
from benchmarks.llm_server import FAULTS

DIALOGUES, TURNS = 60, 4


@pytest.mark.slow
def test_dialogues_finish_at_less_than_twice_the_calls_and_none_is_scored_from_a_bad_answer() -> None:
    plain = run(0.0, DIALOGUES, TURNS)
    assert plain.calls == DIALOGUES * (2 * TURNS - 1) and plain.from_bad_answers == 0
    faulty = run(0.3, DIALOGUES, TURNS)
    assert len(faulty.dialogues) == DIALOGUES and faulty.from_bad_answers == 0
    assert set(faulty.faulty) == set(FAULTS) and plain.calls < faulty.calls < 2 * plain.calls


@pytest.mark.slow
def test_what_was_answered_before_a_kill_is_never_asked_again() -> None:
    killed = run(0.3, DIALOGUES, TURNS, kill_after_calls=300)
    assert len(killed.dialogues) == DIALOGUES and killed.from_bad_answers == 0
    assert killed.stored_at_kill > 100 and killed.asked_again == 0
