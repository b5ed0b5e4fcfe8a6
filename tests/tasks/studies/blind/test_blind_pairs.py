"""Who sees what: pairs of one persona, the same order after every start, a part that is everybody's, and no name anywhere."""

from __future__ import annotations

from collections import Counter

import pytest
from blind_study import SECRETS, both, talk

from rlver.components.domain.transcript import StopReason
from rlver.tasks.studies.blind.comparing import order_for, pairs_of, shown


def test_dialogues_are_paired_by_persona_and_repeats_by_seed() -> None:
    a = [talk("a", 1, 1, repeat=1), talk("a", 1, 1, repeat=0), talk("a", 2, 1)]
    b = [talk("b", 1, 1, repeat=0), talk("b", 1, 1, repeat=1), talk("b", 3, 1)]
    found = pairs_of(a, b)
    assert [(pair.a.seed, pair.b.seed, pair.persona_id) for pair in found.pairs] == [
        (7, 7, "secret-persona-001"),
        (8, 8, "secret-persona-001"),
    ]
    assert found.left_out == 2


def test_a_failed_dialogue_is_in_no_pair() -> None:
    a, b = both(2)
    a[0] = a[0].model_copy(update={"stop_reason": StopReason.FAILED, "error": "cut", "emotion_final": None})
    found = pairs_of(a, b)
    assert [pair.persona_id for pair in found.pairs] == ["secret-persona-001"] and found.left_out == 2


def test_without_a_shared_persona_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="no persona in common"):
        pairs_of([talk("a", 1, 1)], [talk("b", 2, 1)])


def test_dialogues_of_different_users_are_no_pair() -> None:
    a, b = both(2)
    b[1] = b[1].model_copy(update={"simulator": b[1].simulator.model_copy(update={"difficulty": "challenging"})})
    with pytest.raises(ValueError, match="scores of different simulators are not comparable"):
        pairs_of(a, b)


def test_only_words_are_shown_and_a_thought_inside_a_reply_is_not() -> None:
    exchanges = shown(talk("a", 1, 1))
    assert [exchange["user"] for exchange in exchanges] == ["user 1.0.0", "user 1.0.1"]
    assert [exchange["reply"] for exchange in exchanges] == ["reply a1.0.0 <b>&", "reply a1.0.1 <b>&"]
    assert not any(secret in str(exchanges) for secret in SECRETS)


def test_a_pair_is_another_when_a_word_of_it_is() -> None:
    ids = {pair.pair_id for pair in pairs_of(*both(20)).pairs}
    assert len(ids) == 20
    (pair,) = pairs_of([talk("a", 1, 1)], [talk("b", 1, 1)]).pairs
    changed = pair.b.model_copy(update={"turns": (pair.b.turns[0].model_copy(update={"assistant": "other"}), *pair.b.turns[1:])})
    assert pairs_of([pair.a], [changed]).pairs[0].pair_id != pair.pair_id


def test_a_person_sees_the_same_order_after_every_start_and_others_another() -> None:
    pairs = pairs_of(*both(40)).pairs
    ann, again, bo = (order_for(name, list(reversed(pairs)) if name == "bo" else pairs, 20, 0.5, 7) for name in ("ann", "ann", "bo"))
    assert ann == again and ann != bo
    assert ann != order_for("ann", pairs, 20, 0.5, 8)
    assert len({placement.pair.pair_id for placement in ann}) == 20


@pytest.mark.parametrize(("overlap", "least"), [(0.0, 0), (0.5, 10), (1.0, 20)])
def test_the_share_that_everybody_sees(overlap: float, least: int) -> None:
    pairs = pairs_of(*both(200)).pairs
    seen = Counter(
        placement.pair.pair_id for rater in ("ann", "bo", "cy", "di", "eve") for placement in order_for(rater, pairs, 20, overlap, 7)
    )
    everybodys = sum(count == 5 for count in seen.values())
    assert everybodys == least  # five people draw the same of 200 by chance about once in 10**4 times
    assert sum(seen.values()) == 100


def test_each_side_stands_on_the_left_half_of_the_time() -> None:
    pairs = pairs_of(*both(40)).pairs
    for rater in ("ann", "bo", "cy"):
        assert Counter(placement.left for placement in order_for(rater, pairs, 40, 0.5, 7)) == {"a": 20, "b": 20}
        odd = Counter(placement.left for placement in order_for(rater, pairs, 7, 0.5, 7))
        assert sorted(odd.values()) == [3, 4]
    lefts = [{p.pair.pair_id: p.left for p in order_for(rater, pairs, 40, 1.0, 7)} for rater in ("ann", "bo")]
    assert 5 < sum(lefts[0][pair] == lefts[1][pair] for pair in lefts[0]) < 35  # people see a pair on sides of their own
