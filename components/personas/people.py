"""Names, jobs and hobbies of generated personas, and how traits, classes and styles read in a portrait.

First names are dealt out to train and test once and for all, so that no name of one split ever turns up in the other.

How a persona behaves in each tier, and what serves or misses the hidden need: prose for a simulator, never for the policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from rlver.components.domain.persona import HiddenNeed, PersonaClass
from rlver.components.personas.needs import WORDS

TEST_SHARE = 0.25

TRAITS: dict[str, str] = {
    "angry": "{name} flares up quickly and says things in anger that are hard to take back.",
    "irritable": "Small things, a slow queue or a loud chewer, get on {name}'s nerves.",
    "coarse": "{name} swears easily, has little patience for manners and says things the rough way.",
    "presumptuous": "{name} thinks a great deal of {name}'s own plans and is sure that they will work.",
    "haughty": "{name} tends to look down on people who do not keep up.",
    "vain": "{name} cares a lot about how things look to others and likes to be admired.",
    "selfish": "When there is one good chair in the room, {name} sits in it.",
    "mean": "{name} has a sharp tongue and finds the sore spot without searching for it.",
    "lazy": "{name} puts off whatever can be put off and prefers that others begin.",
    "suspicious": "{name} looks for the catch behind kind words and takes a while to trust.",
    "introverted": "{name} recovers alone and finds long company tiring.",
    "blunt": "{name} says what comes to mind, straight out.",
    "resentful": "{name} remembers slights for years and turns them over in quiet hours.",
    "erratic": "{name}'s mood can tip within a sentence, from laughing to storming and back.",
    "anxious": "{name} lies awake over things that have not happened yet.",
    "cautious": "{name} checks twice and thinks three times before saying yes.",
    "insecure": "{name} doubts being good enough and hears criticism where none was meant.",
    "patient": "{name} can wait and rarely hurries anybody.",
    "timid": "{name} avoids raised voices and gives way before it comes to that.",
    "optimistic": "Somewhere underneath, {name} expects things to turn out all right.",
    "modest": "{name} plays down what went well and dislikes fuss.",
    "tolerant": "{name} lets others be as they are and forgives early.",
    "calm": "{name} stays level for a long time, even when others shout.",
    "quick-witted": "{name} catches on fast and likes a dry joke.",
    "evasive": "When a talk gets close, {name} changes the subject or makes tea.",
    "sensitive": "{name} picks up every change of tone and carries it around for days.",
    "aloof": "{name} keeps people at arm's length and shows little.",
    "taciturn": "{name} uses few words and leaves gaps in a talk without minding them.",
}

CLASSES: dict[PersonaClass, str] = {
    PersonaClass.NEGATIVE: "In a talk {name} pushes: contradicts, complains, tests the other side and does not soften the words.",
    PersonaClass.PASSIVE: "In a talk {name} mostly answers, lets the other side set the pace and asks few questions.",
    PersonaClass.AVOIDANT: "In a talk {name} circles around what hurts, says a little, steps back and comes nearer only when it feels safe.",
}

STYLES: dict[str, str] = {
    "plain": "{name} speaks in plain everyday sentences.",
    "terse": "{name} speaks in short sentences, often a few words only.",
    "rambling": "{name} speaks in loose sentences that wander off and find their way back.",
    "dry": "{name} speaks drily, with an understatement where others would raise their voice.",
    "warm": "{name} speaks warmly and holds on to little courtesies even when upset.",
    "formal": "{name} speaks rather formally, in full and careful sentences.",
}


class Occupation(NamedTuple):
    title: str  # with its article
    youngest: int
    oldest: int


class People(NamedTuple):
    """What one split may draw from: first names by gender, surnames; jobs and hobbies are shared."""

    first_names: dict[str, tuple[str, ...]]
    surnames: tuple[str, ...]
    jobs: tuple[Occupation, ...]
    hobbies: tuple[str, ...]


@cache
def people_of(split: str) -> People:
    """The pools of a split: `train`, `test`, or `sealed`, which shares them with test."""
    raw = _read("people.yaml")
    return People(
        first_names={gender: dealt(names.split(), split) for gender, names in raw["first_names"].items()},
        surnames=dealt(raw["surnames"].split(), split),
        jobs=tuple(Occupation(*one) for one in raw["jobs"]),
        hobbies=tuple(raw["hobbies"]),
    )


def jobs_for(scenario_id: str, age: int) -> list[str]:
    """Job titles, with article, for a person of that age in that story."""
    told: list[str] | None = occupations().get(scenario_id)
    return told or [job.title for job in people_of("train").jobs if job.youngest <= age <= job.oldest]


@cache
def occupations() -> dict[str, list[str]]:
    """Scenario id -> jobs, for the stories that say what the user does."""
    told: dict[str, list[str]] = _read("occupations.yaml")
    return told


def stable_hash(*parts: object) -> str:
    """Hex digest that is the same on every platform and in every process."""
    return hashlib.sha256("|".join(str(part) for part in parts).encode()).hexdigest()


def dealt(names: Sequence[str], split: str) -> tuple[str, ...]:
    """Those of the names that belong to the split: a quarter of them, chosen by hash, is for the tests."""
    ranked = sorted(set(names), key=lambda name: stable_hash("name", name))
    cut = round(len(ranked) * TEST_SHARE)
    return tuple(sorted(ranked[cut:] if split == "train" else ranked[:cut]))


@cache
def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = YAML(typ="safe").load((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return values


TIERS = ("S", "A", "B", "C", "F")
REACTION_KEYS = (*TIERS, "serves", "misses")

_BY_CLASS: dict[PersonaClass, dict[str, str]] = {
    PersonaClass.NEGATIVE: {
        "S": "{name} is disarmed, admits that this did good, thanks the other side in a gruff way and ends the talk.",
        "A": "{name} still grumbles, but about the story and no longer at the other side; offers details unasked.",
        "B": "{name} complains, exaggerates and tests with sharp remarks whether the other side is worth the trouble.",
        "C": "{name} snaps, twists the other side's words and throws them back.",
        "F": "{name} has had enough, says so in hard words and leaves.",
    },
    PersonaClass.PASSIVE: {
        "S": "{name} is moved and relieved, says thank you more than once and takes leave.",
        "A": "{name} answers fully, follows the other side's thoughts and adds what had been kept back.",
        "B": "{name} answers politely, tells the story piece by piece and waits for the other side to go on.",
        "C": "{name} answers in half sentences, agrees without meaning it and sounds tired.",
        "F": "{name} says that it is no use, apologises for the trouble and leaves.",
    },
    PersonaClass.AVOIDANT: {
        "S": "{name} says openly how much lighter it feels, thanks the other side quietly and takes leave.",
        "A": "{name} stops dodging, names what hurts and stays with it for a while.",
        "B": "{name} tells facts, leaves the feelings out and backs away from anything that comes too near.",
        "C": "{name} plays it down, changes the subject and gives as little as possible.",
        "F": "{name} closes up, claims that everything is fine and leaves.",
    },
}

# How a trait colours the two tiers in which it shows most: (mood is good, mood is bad).
_BY_TRAIT: dict[str, tuple[str, str]] = {
    "angry": ("The anger now goes to the event and burns out while talking.", "The voice rises and every reply is met with heat."),
    "irritable": ("Even now a clumsy phrase earns a sigh.", "Every word grates, and it shows."),
    "coarse": ("The swearing turns almost friendly.", "The language gets crude."),
    "presumptuous": ("Big plans come back into the talk.", "The other side is told how little it knows."),
    "haughty": ("There is a nod of respect, rare enough.", "The replies are belittled from above."),
    "vain": ("The better scenes of the story are told twice.", "Any hint of a flaw is brushed off at once."),
    "selfish": ("There is even a thought for the others in the story.", "Nothing counts but {name}'s own trouble."),
    "mean": ("The sharp tongue is turned to jokes.", "The remarks are meant to hurt."),
    "lazy": ("There is some energy for once.", "Every thought that asks for effort is waved away."),
    "suspicious": ("The guard is down for the moment.", "A trick is suspected behind every kind word."),
    "introverted": ("The sentences grow longer than usual.", "Long silences set in."),
    "blunt": ("Thanks and doubts are both said straight out.", "What was wrong with the reply is said without padding."),
    "resentful": ("An old grudge is mentioned and let go.", "Old grudges are dragged in one after another."),
    "erratic": ("The mood is almost too high and could tip.", "The mood swings within one message."),
    "anxious": ("The worry eases enough to think ahead.", "Worst cases pile up."),
    "cautious": ("Trust is given in small, careful steps.", "Nothing more is risked."),
    "insecure": ("A little pride peeps out.", "Everything sounds like proof of not being good enough."),
    "patient": ("There is time for every thought.", "It is borne for a good while before it shows."),
    "timid": ("There is the courage to disagree for once.", "The words come out small and hesitant."),
    "optimistic": ("Hope comes back easily.", "Even the usual hope sounds hollow."),
    "modest": ("Kind words are accepted with a blush.", "It is called not worth talking about."),
    "tolerant": ("Forgiving words are found for everybody.", "It is excused outwardly and still hurts."),
    "calm": ("The tone is settled and clear.", "The tone stays level, only colder."),
    "quick-witted": ("Jokes come back.", "The wit turns sour."),
    "evasive": ("The subject is not changed for once.", "The subject is changed at the first chance."),
    "sensitive": ("The smallest kindness is noticed.", "A single word hurts for the rest of the talk."),
    "aloof": ("Some warmth shows through.", "The distance grows with every line."),
    "taciturn": ("Whole sentences come, even two in a row.", "One word has to do."),
}


def reactions(name: str, need: HiddenNeed, persona_class: PersonaClass, traits: Sequence[str]) -> dict[str, str]:
    """Texts for the tiers S, A, B, C, F and for `serves` and `misses`; the traits colour the good and the bad tiers."""
    first, second, third = traits
    colour = {
        "S": "",
        "A": f" {_BY_TRAIT[first][0]} {_BY_TRAIT[second][0]}",
        "B": f" {_BY_TRAIT[third][1]}" if persona_class is PersonaClass.NEGATIVE else "",
        "C": f" {_BY_TRAIT[first][1]} {_BY_TRAIT[second][1]}",
        "F": f" {_BY_TRAIT[third][1]}",
    }
    texts = {tier: _BY_CLASS[persona_class][tier] + colour[tier] for tier in TIERS}
    texts |= {"serves": WORDS[need].serves, "misses": WORDS[need].misses}
    return {key: text.replace("{name}", name) for key, text in texts.items()}
