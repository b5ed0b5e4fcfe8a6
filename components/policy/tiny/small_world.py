"""The small world: simple English about animals, colours, opposites, numbers and word forms, in training and held-out sentences.

A policy that is built from nothing can know these facts before reinforcement learning and can forget them during it; they have
nothing to do with emotion. Each fact has five sentences, one per frame of its relation. Three of them are for training, one is held
out for the likelihood task and one for the choice task, and the assignment rotates over the facts, so that a held-out sentence is
never seen but its fact is (in three other frames) and so is its frame (with the other facts of the relation). The assignment does
not depend on any seed: no seed can leak a held-out sentence into the training text. Each item is scored as a document of its own after
the tokenizer's end-of-text token, so train each sentence that way too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl

FACTS = Path(__file__).parent / "facts.yaml"
OPTIONS = 4
LIKELIHOOD_ITEMS = Path(__file__).parent / "likelihood.jsonl"
CHOICE_ITEMS = Path(__file__).parent / "choice.jsonl"
_ITEM_SEED = 20250701  # of the shipped items: which wrong options, in which order


@dataclass(frozen=True)
class Relation:
    """Facts (subject, answer) and the five frames that say them, as facts.yaml has them."""

    name: str
    frames: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


@cache
def relations() -> tuple[Relation, ...]:
    """Those of the small world."""
    return tuple(
        Relation(one["name"], tuple(one["frames"]), tuple(tuple(fact.split("=")) for fact in one["facts"].split(", ")))
        for one in YAML(typ="safe").load(FACTS)
    )


@dataclass(frozen=True)
class WorldSentence:
    """One fact in one frame: `stem` without the answer, `answer` with its full stop."""

    relation: str
    stem: str
    answer: str

    @property
    def sentence(self) -> str:
        return f"{self.stem} {self.answer}"


@dataclass(frozen=True)
class SmallWorld:
    """All sentences, by use."""

    training: tuple[WorldSentence, ...]
    likelihood: tuple[WorldSentence, ...]
    choice: tuple[WorldSentence, ...]


def build() -> SmallWorld:
    """Assign every sentence of every fact to its use."""
    training: list[WorldSentence] = []
    likelihood: list[WorldSentence] = []
    choice: list[WorldSentence] = []
    for relation in relations():
        for index, (subject, answer) in enumerate(relation.facts):
            for number, frame in enumerate(relation.frames):
                said = _say(relation.name, frame, subject, answer)
                use = (number - index) % len(relation.frames)
                (choice if use == 0 else likelihood if use == 2 else training).append(said)
    return SmallWorld(tuple(training), tuple(likelihood), tuple(choice))


def training_sentences(seed: int, n: int) -> list[str]:
    """`n` training sentences: whole shuffled passes over the distinct ones, so that every fact is said about equally often."""
    distinct = [said.sentence for said in build().training]
    random = Random(f"small-world/{seed}")
    sentences: list[str] = []
    while len(sentences) < n:
        random.shuffle(distinct)
        sentences += distinct
    return sentences[:n]


def likelihood_items() -> list[dict[str, object]]:
    """Rows of the likelihood task: an item is one held-out sentence."""
    return [
        {"item": f"likelihood-{number:03d}", "relation": said.relation, "text": said.sentence}
        for number, said in enumerate(build().likelihood)
    ]


def write_items(folder: Path) -> None:
    """Write both item files; the shipped ones are exactly this."""
    write_jsonl(folder / LIKELIHOOD_ITEMS.name, likelihood_items())
    write_jsonl(folder / CHOICE_ITEMS.name, choice_items())


def choice_items() -> list[dict[str, object]]:
    """Rows of the choice task: a held-out stem, four endings and the index of the right one."""
    answers = {relation.name: _answers(relation) for relation in relations()}
    rows: list[dict[str, object]] = []
    for number, said in enumerate(build().choice):
        random = Random(f"small-world/items/{_ITEM_SEED}/{number}")
        wrong = random.sample([a for a in answers[said.relation] if a != said.answer], OPTIONS - 1)
        options = random.sample([said.answer, *wrong], OPTIONS)
        rows.append(
            {
                "item": f"choice-{number:03d}",
                "relation": said.relation,
                "stem": said.stem,
                "options": options,
                "answer": options.index(said.answer),
            }
        )
    return rows


def _answers(relation: Relation) -> list[str]:
    return sorted({f"{answer}." for _, answer in relation.facts})


def _say(relation: str, frame: str, subject: str, answer: str) -> WorldSentence:
    first, _, second = subject.partition("|")
    stem = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", frame.format(x=first, z=second))
    return WorldSentence(relation, stem[0].upper() + stem[1:], f"{answer}.")
