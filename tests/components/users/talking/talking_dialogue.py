"""Talking to the talking user with appraisals written by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Utterance, now
from rlver.components.domain.transcript import Appraisal, Evidence
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.users.talking.speaker import TalkingSpeaker, TalkingSpeakers

SIGNS = {"welcome": 5, "unwelcome": -5}


@dataclass(frozen=True)
class Felt:
    """A reply and what was made of it: the acts heard in it with their probabilities, all carried by the whole reply, and the change."""

    reply: str
    acts: dict[str, float]
    change: int

    @property
    def appraisal(self) -> Appraisal:
        evidence = [Evidence(step="content", what=act, span=self.reply, probability=sure) for act, sure in self.acts.items()]
        target = Evidence(step="target", what="dismiss", span=self.reply, points=self.change, probability=1.0)
        return Appraisal(content="", target="", activity="", feeling="", change=self.change, evidence=(*evidence, target))


def dialogue(persona: Persona, felt: list[Felt], seed: int = 5, emotion: int = 50, difficulty: str = "vanilla") -> list[Utterance]:
    """What the user says: the first line, and a message after each reply."""
    speaker: TalkingSpeaker = TalkingSpeakers(difficulty).speaker(persona, seed)
    said = [now(speaker.open())]
    for one in felt:
        now(speaker.hear(one.reply, one.appraisal))
        said.append(now(speaker.speak(emotion)))
    return said


REPLIES = [
    Felt("None of it was your doing, whatever the neighbours whisper.", {"absolve": 0.9}, 6),
    Felt("Have you written a letter to the landlord yet?", {"ask_fact": 0.8, "advise": 0.5}, -2),
    Felt("There's an empty chair in you where that used to sit.", {"deep_empathy": 0.95}, 3),
    Felt("Time heals all wounds, sunshine.", {"platitude": 0.97}, -8),
    Felt("You could write a letter to the council first.", {"advise": 0.9}, 2),
    Felt("Hm.", {}, -4),
    Felt("Write that letter to the council, really.", {"advise": 0.9}, -3),
    Felt("That sounds exhausting.", {"acknowledge": 0.7}, 0),
    Felt("What happened next, and how did the evening end?", {"invite_telling": 0.6, "ask_fact": 0.55}, 4),
]


@cache
def people() -> dict[str, list[Persona]]:
    train, test = compose_personas(load_library(), seed=11, train=160, test=160)
    return {"train": train, "test": test}


def begins_with(text: str, options: list[str]) -> bool:
    return any(re.match(re.escape(one).replace(re.escape("{word}"), r"[a-z]{4,14}"), text) for one in options)


def plain(persona: Persona) -> Persona:
    """Of an age and a style that say every wording that does not begin with a small letter."""
    return persona.model_copy(update={"style": "plain", "age": 50})
