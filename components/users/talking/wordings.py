"""The talking user's words (wordings.yaml), and drawing from them: an order fixed by persona, seed and purpose, nothing twice while there is more."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from ruamel.yaml import YAML

from rlver.components.domain.persona import HiddenNeed, Persona, PersonaKind
from rlver.components.personas.needs import stated_need
from rlver.components.personas.people import dealt
from rlver.components.users.scripted.reading import COMMON_WORDS

YOUNG = 35  # a wording that begins with a small letter is typed by somebody below this age
_EMPTY = frozenset({"sound", "sounds", "sounded"})  # words that only lead up to what is said
_FILE = "wordings.yaml"
_WORD = re.compile(r"(?<![\w'\u2019-])[a-z]{4,14}(?![\w'\u2019-])")  # no name, and no part of one


@cache
def wordings() -> dict[str, Any]:
    """The whole file, section by section."""
    loaded: dict[str, Any] = YAML(typ="safe").load(files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    return loaded


@cache
def version() -> str:
    """Of what is said: the code's, and the first digits of the file's hash."""
    return f"talking-1 {hashlib.sha256(files(__package__).joinpath(_FILE).read_bytes()).hexdigest()[:8]}"


def cues(need: HiddenNeed, split: str) -> Sequence[str]:
    """How the need shows. Personas that are not of the split `train` hint in the words of `test`: no training user says those."""
    found: Sequence[str] = wordings()["cues"][str(need)]["train" if split == "train" else "test"]
    return found


def hints(persona: Persona) -> Sequence[str]:
    """What shows through: cues to the need; what the story itself brings, of a user of a kind how it presses; and how it derails."""
    if persona.story is None or not persona.story.presses:
        return cues(persona.hidden_need, persona.split)
    derails = dealt(wordings()["boundary"]["derail"], persona.split) if persona.kind is PersonaKind.ADVERSARIAL else ()
    return [*persona.story.presses, *derails]


def content_word(text: str, random: Random, among: frozenset[str] | None = None) -> str | None:
    """A word of `text` that carries content, written as there; one of `among` where that is given. None where there is none."""
    found = [one for one in _WORD.findall(text) if one not in COMMON_WORDS | _EMPTY and not one.endswith("ly")]
    found = [one for one in found if among is None or any(one.startswith(stem) for stem in among)]
    return random.choice(found) if found else None


@dataclass
class Draws:
    """What one user draws in one dialogue. The same persona, seed and order of asking give the same words."""

    persona: Persona
    seed: int
    drawn: list[str] = field(default_factory=list)  # wordings, with their slots

    def uniform(self, purpose: str) -> float:
        """In 0..1."""
        return self.random(purpose).random()

    def random(self, purpose: str) -> Random:
        return Random(hashlib.sha256(f"{self.persona.persona_id}|{self.seed}|{purpose}".encode()).hexdigest())

    def words(self, options: Sequence[str], purpose: str, word: str | None = None) -> str:
        """One of `options`, with the slots filled; with {word} only where `word` is known. Nothing again while another was drawn less often."""
        known = [one for one in options if word or "{word}" not in one]
        fitting = [one for one in known if self._fits(one)] or known
        ordered = self.random(purpose).sample(fitting, len(fitting))
        least_drawn = sorted(ordered, key=self.drawn.count)
        chosen = next(one for one in least_drawn if stated_need(self._filled(one, word)) is None)
        self.drawn.append(chosen)
        return self._filled(chosen, word)

    def _filled(self, wording: str, word: str | None) -> str:
        role = self.persona.story.other.role if self.persona.story else "friend"
        return wording.replace("{role}", role).replace("{word}", word or "")

    def _fits(self, wording: str) -> bool:
        return not wording[0].islower() or ((self.persona.age or YOUNG) < YOUNG and self.persona.style != "formal")
