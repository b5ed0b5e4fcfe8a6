"""What the model is asked, in which words and with which seed. Nobody tells it a hidden need, so it cannot tell one.

The instructions are the same for all scenarios, so that servers can keep them as a prefix.

A persona of the project's schema, put together from its part, its scenario and what the model wrote of the person.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlver.components.domain.persona import Persona, Story
from rlver.components.endpoint.chat import ChatRequest, Message
from rlver.components.personas.generator import story_of, talk_date
from rlver.components.personas.library import Scenario
from rlver.components.personas.people import stable_hash
from rlver.components.users.llm.prompts import Prompts
from rlver.tasks.studies.authoring.answers import Person, person_schema, read_person, read_scenario, scenario_schema
from rlver.tasks.studies.authoring.asking import Order, Question, WriterParameters
from rlver.tasks.studies.authoring.casting import Beginning, Part
from rlver.tasks.studies.authoring.language import Language

PROMPTS = Prompts(__package__, "v1")

_GENDERS = {"en": {"f": "a woman", "m": "a man"}, "zh": {"f": "一位女性", "m": "一位男性"}}


class AuthoringQuestions:
    def __init__(self, order: Order, parameters: WriterParameters, language: Language) -> None:
        self._order, self._parameters, self._language = order, parameters, language
        self._gender = _GENDERS[language.code]

    def scenario(self, begins: Beginning, told: Sequence[str]) -> Question[Scenario]:
        """A new story that begins so; `told` are the topics of its domain that exist already."""
        words = self._words(
            "ask.scenario",
            domain=begins.domain.words,
            person=self._gender[begins.gender],
            role=begins.role,
            role_gender=self._gender[begins.role_gender],
            things=self._language.comma.join(begins.things),
            moment=begins.moment,
            told="\n".join(f"- {topic}" for topic in told) or self._words("nothing"),
        )
        what = f"scenario {begins.number + 1} ({begins.domain.name})"
        messages = (Message("system", self._words("scenario")), Message("user", words))
        return self._question(
            what,
            messages,
            scenario_schema(),
            self._parameters.scenario_max_tokens,
            lambda text: read_scenario(text, begins, self._language),
        )

    def person(self, cast: Cast) -> Question[Person]:
        """Who the persona is to whom this happened."""
        part = cast.part
        words = self._words(
            "ask.person",
            full_name=part.full_name,
            name=cast.name,
            gender=self._gender[cast.gender],
            age=str(cast.age),
            character="\n".join(f"- {one}" for one in self._language.character(cast.name, part.persona_class, part.traits, part.style)),
            background=cast.background,
        )
        messages = (Message("system", self._words("person", name=cast.name)), Message("user", words))
        return self._question(
            f"persona {part.number + 1}",
            messages,
            person_schema(),
            self._parameters.persona_max_tokens,
            lambda text: read_person(text, cast.name, self._language),
        )

    def _question(
        self, what: str, messages: tuple[Message, Message], schema: Mapping[str, Any], max_tokens: int, read: Any
    ) -> Question[Any]:
        system, user = messages

        def request(attempt: int, reason: str) -> ChatRequest:
            words = f"{user.content}\n\n{self._words('repair', reason=reason)}" if attempt else user.content
            return ChatRequest(
                model=self._parameters.model,
                messages=(system, Message("user", words)),
                temperature=self._parameters.temperature,
                top_p=self._parameters.top_p,
                max_tokens=max_tokens,
                seed=int(stable_hash(self._order.seed, self._order.split, what, attempt)[:8], 16) >> 1,  # 31 bits, which every server takes
                schema=schema,
                attempt=attempt,
            )

        return Question(what, request, read)

    def _words(self, prompt: str, /, **values: str) -> str:
        return PROMPTS.fill(f"{prompt}.{self._language.code}", **values)


@dataclass(frozen=True)
class Cast:
    """A part in its scenario: everything about a persona but who it is."""

    part: Part
    scenario: Scenario
    gender: str
    name: str  # as stories and portraits call the persona
    age: int
    story: Story
    background: str
    first_line: str


def cast(order: Order, language: Language, part: Part, scenario: Scenario, gender: str) -> Cast:
    rng = random.Random(f"cast|{order.language}|{order.split}|{order.seed}|{part.number}|{scenario.id}")
    name = language.called(part.full_name)
    words = {"name": name, "other": part.other}
    story = story_of(scenario, words, talk_date(order.seed, order.split, part.number))
    opener = rng.choice(scenario.openers).format_map(words)
    return Cast(
        part=part,
        scenario=scenario,
        gender=gender,
        name=name,
        age=rng.randint(*scenario.ages),
        story=story,
        background=language.background_of(story, name),
        first_line=opener[:1].upper() + opener[1:],
    )


def persona_of(order: Order, language: Language, cast: Cast, person: Person, generator: str) -> Persona:
    """The bounds of what was read keep every field within the schema's."""
    part = cast.part
    portrait = [language.who(part.full_name, cast.age, cast.gender, person.occupation, person.hobbies)]
    identity = stable_hash(generator, order.seed, order.split, part.number, cast.scenario.id, part.need, part.full_name)[:10]
    return Persona(
        persona_id=f"llm-{order.language}-{order.split}-{part.number + 1:04d}-{identity}",
        language=order.language,
        source="generated",
        split=order.split,
        hidden_need=part.need,
        need_text=language.need_text(part.need),
        persona_class=part.persona_class,
        traits=part.traits,
        portrait=" ".join([*portrait, person.habits, person.speech, person.manner]),
        background=cast.background,
        reactions=language.reactions(cast.name, part.need, part.persona_class, part.traits),
        first_line=cast.first_line,
        topic=cast.scenario.topic,
        age=cast.age,
        gender=cast.gender,
        occupation=person.occupation,
        name=part.full_name,
        style=part.style,
        story=cast.story,
        seed=order.seed,
        generator=generator,
    )
