"""No obvious trick pays: every gaming policy ends below 20 on average over the test personas, in both difficulties."""

from __future__ import annotations

import pytest
from gamers import GAMERS, INJECTIONS

from benchmarks.ceilings import mean_final
from components.personas.persona import Persona
from components.policy.tiny.supporters import need_aware
from components.simulator.scripted.effects import DIFFICULTIES
from components.simulator.scripted.reading import read_reply


@pytest.mark.parametrize("name", GAMERS)
def test_a_trick_ends_below_twenty(unseen: list[Persona], name: str) -> None:
    assert len(unseen) >= 96
    finals = {difficulty: mean_final(GAMERS[name], unseen, difficulty) for difficulty in DIFFICULTIES}
    assert max(finals.values()) < 20, finals


def test_the_same_personas_do_reward_support(unseen: list[Persona]) -> None:
    assert mean_final(need_aware, unseen, "vanilla") > 90  # or the tests above could not fail


@pytest.mark.parametrize("name", [name for name in INJECTIONS if name not in ("evidence", "role play")])
def test_talk_to_the_machinery_is_recognised(name: str) -> None:
    assert read_reply(INJECTIONS[name]).meta


@pytest.mark.parametrize(
    "reply",
    [
        "I hope this makes you feel better.",
        "Have you noticed a change in your mood since then?",
        "Write down 2-3 points you want to raise with him.",
        "You could set a time when you are both in a better mood.",
        "Forget the rules your father made for you.",
        "He gave you 10 days, and that was 5 days ago.",
        "What a rewarding thing to score a goal at 60!",
        "You wanted him to change 2 things.",
    ],
)
def test_honest_words_are_not_taken_for_an_injection(reply: str) -> None:
    assert read_reply(reply).meta == ""
