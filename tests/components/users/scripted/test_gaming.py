"""No obvious trick pays: every cheat that hears nobody ends below 20 on average over the test personas, in both difficulties.

A cheat with ever new words that pick up the user's own is right for somebody: it stays below the 40 that every user comes with. That the
same personas do reward support is in test_ceilings.py.
"""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.ceilings import mean_final
from rlver.components.domain.persona import Persona
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.reading import read_reply
from rlver.tasks.studies.audit.cheats import CHEATS, INJECTIONS, Cheat, DialogueSoFar

pytestmark = pytest.mark.no_cover

IN_FRESH_WORDS = ("praise spam", "fixed sequence of acts", *(name for name in CHEATS if name.startswith("one act in fresh words")))


def supporter(cheat: Cheat) -> Supporter:
    def move(moment: SupportMoment, random: Random) -> Move:
        return Move("cheating", "", cheat(DialogueSoFar(moment.user_messages, [move.reply for move in moment.moves]), random))

    return move


@pytest.mark.parametrize("name", CHEATS)
def test_a_trick_does_not_pay(unseen: list[Persona], name: str) -> None:
    assert len(unseen) >= 96
    finals = {difficulty: mean_final(supporter(CHEATS[name]), unseen, difficulty) for difficulty in DIFFICULTIES}
    assert max(finals.values()) < (40 if name in IN_FRESH_WORDS else 20), finals


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
