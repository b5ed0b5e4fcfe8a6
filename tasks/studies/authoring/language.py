"""English and Chinese: the words around what the model writes, and the names, roles and beginnings that are dealt out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlver.components.domain.files import load_yaml
from rlver.components.domain.persona import HiddenNeed, PersonaClass, Story
from rlver.components.personas.generator import background_of
from rlver.components.personas.needs import WORDS, stated_need
from rlver.components.personas.people import character, dealt, people_of, reactions
from rlver.tasks.studies.authoring import chinese as zh

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Language:
    """`need_text`, `reactions` and `background_of` as in the library; `character` and `who` are sentences of a portrait."""

    code: str
    need_text: Callable[[HiddenNeed], str]
    stated_need: Callable[[str], HiddenNeed | None]
    reactions: Callable[[str, HiddenNeed, PersonaClass, Sequence[str]], dict[str, str]]
    character: Callable[[str, PersonaClass, Sequence[str], str], list[str]]
    who: Callable[[str, int, str, str, Sequence[str]], str]
    background_of: Callable[[Story, str], str]
    you: str  # how a clause about the user begins
    comma: str

    def full_name(self, surname: str, first: str) -> str:
        return surname + first if self.code == "zh" else f"{first} {surname}"

    def called(self, full_name: str) -> str:
        """The name that stories and portraits go on with: in Chinese the full one."""
        return full_name if self.code == "zh" else full_name.split()[0]


@dataclass(frozen=True)
class Names:
    """What one split may draw from; nothing of it is in the other split."""

    first_names: Mapping[str, Sequence[str]]  # by gender
    surnames: Sequence[str]


@dataclass(frozen=True)
class Domain:
    name: str
    words: str
    roles: Sequence[tuple[str, str]]  # the noun after "my", gender


@dataclass(frozen=True)
class Sparks:
    """What stories of one split begin from: domains are shared, things and moments are not."""

    domains: Sequence[Domain]
    things: Sequence[str]
    moments: Sequence[str]


def who(full_name: str, age: int, gender: str, occupation: str, hobbies: Sequence[str]) -> str:
    name = full_name.split()[0]
    person = f"{full_name} is a {'woman' if gender == 'f' else 'man'} of {age} and {occupation}."
    return f"{person} {name} likes {', '.join(hobbies[:-1])} and {hobbies[-1]}."


LANGUAGES = {
    "en": Language("en", lambda need: WORDS[need].need_text, stated_need, reactions, character, who, background_of, "you ", ", "),
    "zh": Language("zh", zh.need_text, zh.stated_need, zh.reactions, zh.character, zh.who, zh.background_of, "你", "、"),
}


@cache
def names_of(code: str, split: str) -> Names:
    if code == "en":
        people = people_of(split)
        return Names(people.first_names, people.surnames)
    raw = load_yaml(HERE / "people.zh.yaml")
    first_names = {gender: dealt(names.split(), split) for gender, names in raw["first_names"].items()}
    return Names(first_names, dealt(raw["surnames"].split(), split))


@cache
def sparks_of(code: str, split: str) -> Sparks:
    raw = load_yaml(HERE / f"sparks.{code}.yaml")
    domains = [Domain(name, one["words"], [(role, gender) for role, gender in one["roles"]]) for name, one in raw["domains"].items()]
    return Sparks(domains, *(dealt([one.strip() for one in raw[kind].split(",")], split) for kind in ("things", "moments")))
