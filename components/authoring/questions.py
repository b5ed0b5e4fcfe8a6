"""What the model is asked, in which words and with which seed. Nobody tells it a hidden need, so it cannot tell one.

The instructions are the same for all scenarios, so that servers can keep them as a prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.authoring.answers import Person, person_schema, read_person, read_scenario, scenario_schema
from components.authoring.asking import Question
from components.authoring.casting import Beginning
from components.authoring.compose import Cast
from components.authoring.language import Language
from components.authoring.parameters import Order, WriterParameters
from components.endpoint.chat import ChatRequest, Message
from components.personas.library import Scenario
from components.personas.people import stable_hash
from components.simulator.llm.prompts import Prompts

PROMPTS = Prompts(__package__, "v1")

_GENDERS = {"en": {"f": "a woman", "m": "a man"}, "zh": {"f": "一位女性", "m": "一位男性"}}


class Questions:
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
