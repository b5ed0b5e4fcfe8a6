"""Who is rolled out when: needs take turns, everybody once per round, the watched never."""

from __future__ import annotations

from collections import Counter

import pytest
from fakes import people

from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.training.curriculum import following, hold_out, persona_order

PERSONAS = list(people()[0])
NEED_OF = {persona.persona_id: persona.hidden_need for persona in PERSONAS}


def test_the_watched_are_never_learned_from_and_cover_the_needs() -> None:
    learning, watched = hold_out(PERSONAS, 8, seed=1)
    assert len(watched) == 8 and len(learning) == 8
    assert {persona.persona_id for persona in learning} | {persona.persona_id for persona in watched} == set(NEED_OF)
    assert len({persona.hidden_need for persona in watched}) == 8


@pytest.mark.parametrize(("count", "each"), [(8, {1}), (32, {4}), (100, {12, 13})])
def test_a_watched_scenario_is_wholly_held_out(count: int, each: set[int]) -> None:
    """500 personas have 48 scenarios, so 10 or 11 personas share one."""
    many = compose_personas(load_library(), 1, 500, 1)[0]
    learning, watched = hold_out(many, count, seed=1)
    known, held = ({persona.story.scenario_id for persona in side if persona.story} for side in (learning, watched))
    assert len(watched) == count and not known & held
    assert len(known) + len(held) == 48 and len(learning) >= 500 - 11 * len(held)
    assert len(held) <= -(-count // 8), "no more scenarios than these personas need"
    assert set(Counter(persona.hidden_need for persona in watched).values()) == each


def test_personas_without_a_scenario_are_held_out_one_by_one() -> None:
    imported = [persona.model_copy(update={"story": None}) for persona in PERSONAS]
    learning, watched = hold_out(imported, 5, seed=1)
    assert len(watched) == 5 and len(learning) == 11


def test_one_scenario_cannot_be_split() -> None:
    one = PERSONAS[0].story
    with pytest.raises(ValueError, match="1 of 1 scenarios are held out whole"):
        hold_out([persona.model_copy(update={"story": one}) for persona in PERSONAS], 2, seed=1)


def test_who_is_watched_depends_on_the_seed_alone() -> None:
    ids = [[persona.persona_id for persona in hold_out(PERSONAS, 5, seed)[1]] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]


def test_somebody_must_be_left_to_learn_from() -> None:
    with pytest.raises(ValueError, match="evaluation_personas = 16 leaves nobody of 16"):
        hold_out(PERSONAS, 16, seed=1)


def test_every_step_sees_the_needs_evenly_and_everybody_once_per_round() -> None:
    order = persona_order(PERSONAS, steps=6, per_step=8, seed=3)
    assert len(order) == 48
    for step in range(6):
        assert len({NEED_OF[persona_id] for persona_id in order[8 * step : 8 * step + 8]}) == 8
    for start in (0, 16, 32):
        assert Counter(order[start : start + 16]) == Counter(NEED_OF.keys())
    assert order[:16] != order[16:32]


def test_the_order_is_the_same_for_the_same_seed_and_a_longer_run_begins_like_a_shorter_one() -> None:
    assert persona_order(PERSONAS, 3, 4, seed=3) == persona_order(PERSONAS, 3, 4, seed=3)
    assert persona_order(PERSONAS, 9, 4, seed=3)[:12] == persona_order(PERSONAS, 3, 4, seed=3)
    assert persona_order(PERSONAS, 3, 4, seed=3) != persona_order(PERSONAS, 3, 4, seed=4)


def test_a_step_cannot_take_more_personas_than_there_are() -> None:
    with pytest.raises(ValueError, match="personas_per_step = 17, but there are only 16"):
        persona_order(PERSONAS, 1, 17, seed=1)


def test_the_step_after_a_step_is_the_one_that_the_trainer_asks_for_next() -> None:
    after = following(["a", "b", "c", "d", "e", "f"], per_step=2, group_size=3, updates_per_batch=2)
    assert after(0) == (["c", "c", "c", "d", "d", "d"], 2)
    assert after(2) == (["e", "e", "e", "f", "f", "f"], 4) and after(4) is None
