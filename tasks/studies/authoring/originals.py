"""What exists already: the library, other persona files and what was taken so far. Nothing new may resemble it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rlver.components.domain.persona import Persona, Story
from rlver.components.personas.library import Library, Scenario
from rlver.tasks.studies.authoring.asking import Unusable


class Originals:
    """Texts that must stay unlike each other: no two with more than `max_overlap` in common, and no sentence that is said twice."""

    def __init__(self, run_words: int, max_overlap: float) -> None:
        self.most_alike = 0.0  # of those that were taken, to anything before them
        self._max_overlap = max_overlap
        self._known = KnownTexts(run_words)
        self._said: dict[tuple[str, ...], str] = {}

    def add(self, name: str, texts: Iterable[str], said: Sequence[str] = ()) -> None:
        """What exists and is not to be judged. A scenario that many personas share is added once."""
        self._known.add(name, "\n".join(texts))
        for sentence in said:
            self._said.setdefault(words_of(sentence), name)

    def take(self, name: str, texts: Sequence[str], said: Sequence[str] = ()) -> None:
        """Add what is unlike everything before it; raises Unusable("duplicate")."""
        closest, overlap = self._known.closest("\n".join(texts))
        if overlap > self._max_overlap:
            raise Unusable("duplicate", f"it is too close to one that exists ({closest}, {overlap:.0%} in common); write something else")
        for sentence in said:
            if holder := self._said.get(words_of(sentence)):
                raise Unusable("duplicate", f"a sentence of it stands in one that exists ({holder}); write something else")
        self.most_alike = max(self.most_alike, round(overlap, 4))
        self.add(name, texts, said)


def said_in(scenario: Scenario) -> list[str]:
    return [*scenario.openers, *scenario.lines]


def story_texts(story: Story) -> list[str]:
    """The texts of `Scenario.texts`, filled in."""
    return [
        story.cause, story.conflict_event, story.conflict_people, story.conflict_inner_cause, story.present, story.feels_like,
        *(text for one in story.timeline for text in (one.event, one.feeling)),
        *story.attempts, *story.lines, *story.deeds, *story.steps, *story.motives, *story.own_part, *story.hurts,
    ]  # fmt: skip


def without_names(text: str, persona: Persona) -> str:
    """The text as a scenario has it: a placeholder, which nothing is compared by, for each name."""
    names = [] if persona.name is None else [persona.name, persona.name.split()[0]]
    for name in [*names, *([persona.story.other.name] if persona.story else [])]:
        text = text.replace(name, "{name}")
    return text


def told_topics(language: str, library: Library, known: Sequence[Persona]) -> dict[str, list[str]]:
    """By domain, what has been told already in this language: the model is asked to stay clear of it."""
    topics: dict[str, dict[str, None]] = {}
    for scenario in library.scenarios if language == "en" else ():
        topics.setdefault(scenario.domain, {})[scenario.topic] = None
    for persona in known:
        if persona.story is not None and persona.language == language:
            topics.setdefault(persona.story.domain, {})[persona.topic] = None
    return {domain: list(found) for domain, found in topics.items()}


_PLACEHOLDER = re.compile(r"\{\w+\}")
_WORD = re.compile("[\u3400-\u9fff]|[^\\W_\u3400-\u9fff]+")


def words_of(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(_PLACEHOLDER.sub(" ", text).casefold()))


class KnownTexts:
    """Texts by name. Two are as alike as the share of the shorter one's runs of words that also stand in the other. `run_words`: the length of a run."""

    def __init__(self, run_words: int) -> None:
        self._run_words = run_words
        self._sizes: dict[str, int] = {}
        self._holders: dict[tuple[str, ...], list[str]] = {}

    def add(self, name: str, text: str) -> None:
        """A name that is known already is not added again."""
        if name in self._sizes:
            return
        runs = self._runs(text)
        self._sizes[name] = len(runs)
        for run in runs:
            self._holders.setdefault(run, []).append(name)

    def closest(self, text: str) -> tuple[str, float]:
        """The name of the text most alike, and how much, 0..1; ("", 0.0) when nothing is shared."""
        runs = self._runs(text)
        shared = Counter(name for run in runs for name in self._holders.get(run, ()))
        overlaps = {name: count / min(len(runs), self._sizes[name]) for name, count in shared.items()}
        name = min(overlaps, key=lambda one: (-overlaps[one], one), default="")
        return name, overlaps.get(name, 0.0)

    def _runs(self, text: str) -> set[tuple[str, ...]]:
        words = words_of(text)
        return {words[start : start + self._run_words] for start in range(max(1, len(words) - self._run_words + 1))}
