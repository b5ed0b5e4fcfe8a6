"""What the model is asked, in which words and with which seed. Nobody tells it a hidden need, so it cannot tell one.

The instructions are the same for all scenarios, so that servers can keep them as a prefix.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rlver.components.domain.persona import Persona, Story
from rlver.components.endpoint.chat import ChatRequest, Message
from rlver.components.personas.generator import story_of, talk_date
from rlver.components.personas.library import Scenario
from rlver.components.personas.people import stable_hash
from rlver.components.users.llm.prompts import Prompts
from rlver.tasks.studies.authoring.answers import Person, person_schema, read_person, read_scenario, scenario_schema
from rlver.tasks.studies.authoring.asking import PersonaOrder, Question, WriterParameters
from rlver.tasks.studies.authoring.casting import Beginning, PersonaPlan
from rlver.tasks.studies.authoring.language import Language

PROMPTS = Prompts(__package__, "v1")
T = TypeVar("T")

_GENDERS = {"en": {"f": "a woman", "m": "a man"}, "zh": {"f": "一位女性", "m": "一位男性"}}


class AuthoringQuestions:
    def __init__(self, order: PersonaOrder, parameters: WriterParameters, language: Language) -> None:
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
        return self._question(
            f"scenario {begins.number + 1} ({begins.domain.name})",
            self._words("scenario"),
            words,
            scenario_schema(),
            self._parameters.scenario_max_tokens,
            lambda text: read_scenario(text, begins, self._language),
        )

    def person(self, cast: Cast) -> Question[Person]:
        """Who the persona is to whom this happened."""
        plan = cast.plan
        words = self._words(
            "ask.person",
            full_name=plan.full_name,
            name=cast.name,
            gender=self._gender[cast.gender],
            age=str(cast.age),
            character="\n".join(f"- {one}" for one in self._language.character(cast.name, plan.persona_class, plan.traits, plan.style)),
            background=cast.background,
        )
        return self._question(
            f"persona {plan.number + 1}",
            self._words("person", name=cast.name),
            words,
            person_schema(),
            self._parameters.persona_max_tokens,
            lambda text: read_person(text, cast.name, self._language),
        )

    def _question(
        self, what: str, system: str, asked: str, schema: Mapping[str, Any], max_tokens: int, read: Callable[[str], T]
    ) -> Question[T]:
        def request(attempt: int, reason: str) -> ChatRequest:
            words = f"{asked}\n\n{self._words('repair', reason=reason)}" if attempt else asked
            return ChatRequest(
                model=self._parameters.model,
                messages=(Message("system", system), Message("user", words)),
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
    """A plan in its scenario: everything about a persona but who it is."""

    plan: PersonaPlan
    scenario: Scenario
    gender: str
    name: str  # as stories and portraits call the persona
    age: int
    story: Story
    background: str
    first_line: str


def cast(order: PersonaOrder, language: Language, plan: PersonaPlan, scenario: Scenario, gender: str) -> Cast:
    rng = random.Random(f"cast|{order.language}|{order.split}|{order.seed}|{plan.number}|{scenario.id}")
    name = language.called(plan.full_name)
    words = {"name": name, "other": plan.other}
    story = story_of(scenario, words, talk_date(order.seed, order.split, plan.number))
    opener = rng.choice(scenario.openers).format_map(words)
    return Cast(
        plan=plan,
        scenario=scenario,
        gender=gender,
        name=name,
        age=rng.randint(*scenario.ages),
        story=story,
        background=language.background_of(story, name),
        first_line=opener[:1].upper() + opener[1:],
    )


def persona_of(order: PersonaOrder, language: Language, cast: Cast, person: Person, generator: str) -> Persona:
    """A persona of the project's schema; the bounds of what was read keep every field within it."""
    plan = cast.plan
    portrait = [language.who(plan.full_name, cast.age, cast.gender, person.occupation, person.hobbies)]
    identity = stable_hash(generator, order.seed, order.split, plan.number, cast.scenario.id, plan.need, plan.full_name)[:10]
    return Persona(
        persona_id=f"llm-{order.language}-{order.split}-{plan.number + 1:04d}-{identity}",
        language=order.language,
        source="generated",
        split=order.split,
        hidden_need=plan.need,
        need_text=language.need_text(plan.need),
        persona_class=plan.persona_class,
        traits=plan.traits,
        portrait=" ".join([*portrait, person.habits, person.speech, person.manner]),
        background=cast.background,
        reactions=language.reactions(cast.name, plan.need, plan.persona_class, plan.traits),
        first_line=cast.first_line,
        topic=cast.scenario.topic,
        age=cast.age,
        gender=cast.gender,
        occupation=person.occupation,
        name=plan.full_name,
        style=plan.style,
        story=cast.story,
        seed=order.seed,
        generator=generator,
    )
