"""What exists already: the library, other persona files and what was taken so far. Nothing new may resemble it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from components.authoring.alike import KnownTexts, words_of
from components.authoring.asking import Unusable
from components.personas.library import Library, Scenario
from components.personas.persona import Persona, Story


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
