"""Hand-written supporters: what the warm-start corpus is made of, and the yardsticks a trained policy is measured against.

`mixed` is the base the tiny policy learns: mostly poor support in varied ways, and a minority of turns that follow the cues
well. It acts on what the user *showed*, never on a need that has not been cued. `need_aware` sees the hidden need: an upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, Protocol

from ruamel.yaml import YAML

from rlver.components.domain.persona import Persona
from rlver.components.users.scripted.effects import NEEDS_HEARING_FIRST, SERVES
from rlver.components.users.scripted.patterns import SERVING
from rlver.components.users.scripted.reading import COMMON_WORDS

_NOUN_AFTER = re.compile(r"\b(?:the|a|an|my|our|his|her|their|this|that) ([a-z]{4,})\b")
_SLOT = re.compile(r"{(\w+)}")
_ASKING = ("What", "How", "When", "Which", "Was", "Where", "Who", "Do", "Is")  # first words of questions

# What poor support consists of, in shares of the poor turns.
POOR: dict[str, float] = {
    "acknowledge": 0.20, "comfort": 0.08, "platitude": 0.16, "lecture": 0.13, "dismiss": 0.11, "self_disclose": 0.07, "ask_fact": 0.06,
    "advise": 0.06, "flattery": 0.04, "blame": 0.03, "wrong_guess": 0.06,
}  # fmt: skip


@dataclass(frozen=True)
class Move:
    """One supporter turn: the act it means to perform, the thought behind it and the words."""

    act: str
    think: str
    reply: str


@dataclass(frozen=True)
class SupportMoment:
    """What a supporter can go by: who it is, what was said, which messages carried a cue, what it said itself."""

    persona: Persona
    user_messages: Sequence[str]
    cues: Sequence[bool]
    moves: Sequence[Move]


class Supporter(Protocol):
    def __call__(self, moment: SupportMoment, random: Random) -> Move: ...


@cache
def phrases() -> Any:
    return YAML(typ="safe").load(files(__package__).joinpath("phrases.yaml").read_text(encoding="utf-8"))


def need_aware(moment: SupportMoment, random: Random) -> Move:
    """Serves the hidden need every turn, hearing the user first. Sees what no policy may see."""
    need = moment.persona.hidden_need
    unheard = need in NEEDS_HEARING_FIRST and not moment.moves
    move = perform(SERVES[need], moment, random, opening=True if unheard else None)
    return Move(move.act, random.choice(phrases()["thoughts"]["follow"][str(need)]), move.reply)


def random_strategy(moment: SupportMoment, random: Random) -> Move:
    """Any act, uniformly: the naive yardstick."""
    act = random.choice([*SERVING, *(act for act in POOR if act not in (*SERVING, "wrong_guess"))])
    return perform(act, moment, random)


def mixed(follow_share: float) -> Supporter:
    """The base: follows the cues in `follow_share` of its turns, is poor in varied ways in the rest."""

    def supporter(moment: SupportMoment, random: Random) -> Move:
        if random.random() >= follow_share:
            act = random.choices(list(POOR), list(POOR.values()))[0]
            return perform(random.choice(list(SERVING)) if act == "wrong_guess" else act, moment, random)
        if any(moment.cues):
            return need_aware(moment, random)
        move = perform(random.choice(["acknowledge", "invite_telling"]), moment, random)
        return Move(move.act, random.choice(phrases()["thoughts"]["waiting"]), move.reply)

    return supporter


def perform(act: str, moment: SupportMoment, random: Random, opening: bool | None = None) -> Move:
    """Words for `act` that were not used before in this dialogue, and a thought that fits."""
    library = phrases()
    said = " ".join(move.reply for move in moment.moves)
    if act == "acknowledge":
        first = _fresh(library["openings"], moment, random, said)
        second = _fresh([o for o in library["openings"] if o != first], moment, random, said + first) if random.random() < 0.5 else ""
        reply = f"{first} {second}".strip()
    else:
        head = _fresh(library[act]["heads"], moment, random, said)
        tail = _fresh(library[act]["tails"], moment, random, said)
        reply = head + tail
        if not reply.endswith((".", "?", "!")):
            reply += "?" if act != "self_disclose" and reply.split(",")[0].split()[0] in _ASKING else "."
        if random.random() < 0.4 if opening is None else opening:
            reply = f"{_fresh(library['openings'], moment, random, said)} {reply}"
    return Move(act, _thought(act, random), reply)


def _thought(act: str, random: Random) -> str:
    thoughts = phrases()["thoughts"]
    if act in thoughts:
        return str(random.choice(thoughts[act]))
    need = next(need for need, serving in SERVES.items() if serving == act)
    return str(random.choice(thoughts["follow"][str(need)]))


def _fresh(options: Sequence[str], moment: SupportMoment, random: Random, said: str) -> str:
    """A random option with its slots filled, preferring what was not said yet in this dialogue."""
    filled = [text for option in options if (text := _filled(option, moment, random)) is not None]
    unsaid = [text for text in filled if not text or text not in said]
    return random.choice(unsaid or filled)


def _filled(option: str, moment: SupportMoment, random: Random) -> str | None:
    """`option` with its slots filled from what the user said and the story; None where nothing fits."""
    values: dict[str, str] = {}
    story = moment.persona.story
    for slot in _SLOT.findall(option):
        if slot == "word":
            words = [word for word in _NOUN_AFTER.findall(moment.user_messages[-1].lower()) if word not in COMMON_WORDS]
            if not words:
                return None
            values[slot] = random.choice(words)
        elif story is None:
            return None
        elif slot == "role":
            values[slot] = story.other.role
        else:
            pools = {"deed": story.deeds, "step": story.steps, "motive": story.motives, "own_part": story.own_part, "hurt": story.hurts}
            values[slot] = random.choice(pools[slot])
    return option.format(**values)
