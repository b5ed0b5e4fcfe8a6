"""Supporters who write free English: their replies, and what the scripted user makes of the ways to choose them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from heard_by_hand import every_label

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import SupportMoment
from rlver.components.users.scripted.effects import NEEDS_HEARING_FIRST, SERVES
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.tasks.studies.hearing import supporters
from rlver.tasks.studies.hearing.supporters import HEARS_FIRST, at_random, bank, earned, planned, plans_to_try, story_of, told

EACH = 8


def people(number: int = 32):  # type: ignore[no-untyped-def]
    return compose_personas(load_library(), 7, 8, number)[1]


def test_every_story_of_the_test_users_has_eight_replies_for_every_act() -> None:
    replies = bank()
    assert {story_of(one) for one in people(104)} == set(replies)
    assert all({act: len(said) for act, said in acts.items()} == dict.fromkeys(SERVES.values(), EACH) for acts in replies.values())
    every = [reply for acts in replies.values() for said in acts.values() for reply in said]
    assert len(set(every)) == len(every) and not set(every) & {row.reply for row in every_label()}


@pytest.mark.parametrize("line", ["hug: There.", "praise:", "praise"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"@ work/boat\n{line}\n")
    with pytest.raises(BadFile, match=r"bad\.txt: line 2"):
        bank(path)


def test_who_was_told_the_need_serves_it_and_hears_first_who_wants_to_be_heard() -> None:
    replies, random = bank(), Random(1)
    for persona in people():
        moves = []
        for _ in range(10):
            moves.append(told(replies)(SupportMoment(persona, ["."], [False], moves), random))
        asked = SERVES[persona.hidden_need]
        assert [move.act for move in moves[:3]] == [HEARS_FIRST if persona.hidden_need in NEEDS_HEARING_FIRST else asked, asked, asked]
        assert len({move.reply for move in moves}) == 10, "nothing is said twice"


def test_a_plan_is_followed_and_plans_differ() -> None:
    plan, moves = ("praise", "advise"), []
    for _ in range(4):
        moves.append(planned(bank(), plan)(SupportMoment(people()[0], ["."], [False], moves), Random(1)))
    assert [move.act for move in moves] == ["praise", "advise", "praise", "advise"]
    assert len(set(plans_to_try(1))) == len(plans_to_try(1)) > 8
    assert at_random(bank())(SupportMoment(people()[0], ["."], [False], []), Random(1)).act in SERVES.values()


@pytest.mark.long
def test_each_supporter_has_its_figure() -> None:
    found = earned(people(16), ScriptedSimulator("vanilla"), EmotionRules(), 100, 1)
    assert [one.supporter for one in found] == ["told the need", "best fixed plan", "acts at random"]
    assert all(one.final.ci95.low <= one.final.value <= one.final.ci95.high for one in found)
    assert found[0].final.value > found[2].final.value


def test_the_best_plan_is_measured_on_the_stories_that_did_not_choose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan is good with one half of the stories only, another with the other: each is chosen there, and earns little on the others."""
    half = set(sorted(bank())[::2])
    earns = {("praise",): {True: 90, False: 10}, ("advise",): {True: 20, False: 80}}

    def hold(persona: Persona, supporter: Any, *_: Any) -> SimpleNamespace:
        return SimpleNamespace(emotion_final=earns.get(supporter, {True: 0, False: 0})[story_of(persona) in half])

    monkeypatch.setattr(supporters, "hold", hold)
    monkeypatch.setattr(supporters, "planned", lambda replies, plan: plan)
    _, best, _ = earned(people(32), ScriptedSimulator("vanilla"), EmotionRules(), 100, 1)
    met = {story_of(one) for one in people(32)}
    assert best.final.value == pytest.approx((20 * len(met & half) + 10 * len(met - half)) / len(met))


def test_a_plan_is_not_chosen_on_nobody() -> None:
    with pytest.raises(ValueError, match="2 personas are of one half of the stories; take more"):
        earned(people(2), ScriptedSimulator("vanilla"), EmotionRules(), 100, 1)
