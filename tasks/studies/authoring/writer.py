"""Personas by a language model: first scenarios, then who each persona is; taken in order, checked, unlike each other and the library.

`rlver personas generate --backend llm` writes them into FILE and their counts into FILE.report.json. While it runs, FILE.unfinished.jsonl
has the valid personas so far.

The run is a function of order, parameters and answers. So a run that was killed is simply started again: with the stored answers it comes
to where it was without a call, and to the same bytes in the end.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.domain.files import write_json, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.endpoint.chat import ChatEndpoint
from rlver.components.personas.library import Library, Scenario, load_library
from rlver.components.personas.schema import validate_file, validate_personas
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.connections import to_user
from rlver.tasks.studies.authoring.answers import Person
from rlver.tasks.studies.authoring.asking import Asker, PersonaOrder, WriterParameters
from rlver.tasks.studies.authoring.casting import Beginning, beginning, plans
from rlver.tasks.studies.authoring.language import LANGUAGES
from rlver.tasks.studies.authoring.originals import Originals, said_in, story_texts, told_topics, without_names
from rlver.tasks.studies.authoring.questions import PROMPTS, AuthoringQuestions, Cast, cast, persona_of

AUTHORING = "rlver-authoring/1"  # raise it whenever the same answers could give other personas


@dataclass(frozen=True)
class Written:
    """`report` has the counts: what was taken, what was rejected and why, and how alike the most alike ones are."""

    personas: tuple[Persona, ...]
    report: dict[str, Any]


class Writer:
    """`known` are personas whose stories and portraits the new ones must not resemble, for example those of the other split."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        order: PersonaOrder,
        parameters: WriterParameters,
        concurrency: int,
        library: Library,
        known: Sequence[Persona],
    ) -> None:
        self._endpoint, self._order, self._parameters, self._concurrency = endpoint, order, parameters, concurrency
        self._language = LANGUAGES[order.language]
        self._questions = AuthoringQuestions(order, parameters, self._language)
        self._told = told_topics(order.language, library, known)
        self._stories = Originals(parameters.run_words, parameters.max_overlap)
        self._people = Originals(parameters.run_words, parameters.max_overlap)
        self._generator = f"{AUTHORING} {parameters.model} prompts={PROMPTS.version}-{PROMPTS.digest()}"
        for scenario in library.scenarios:
            self._stories.add(scenario.id, scenario.texts(), said_in(scenario))
        for persona in known:
            self._people.add(persona.persona_id, [without_names(persona.portrait, persona)])
            if persona.story is not None:
                told = [without_names(text, persona) for text in story_texts(persona.story)]
                said = [without_names(text, persona) for text in (persona.first_line or "", *persona.story.lines)]
                self._stories.add(persona.story.scenario_id, told, said)

    async def write(self, taken: Callable[[Sequence[Persona]], None]) -> Written:
        """Raises Unwritten or EndpointError. `taken` gets all personas so far, each time those of one more scenario are complete."""
        per_scenario = self._parameters.personas_per_scenario
        beginnings = [beginning(self._order, number) for number in range(-(-self._order.count // per_scenario))]
        planned = list(plans(self._order, self._language, beginnings, per_scenario))  # too few names are found before anything is paid
        scenarios, refused_scenarios = await self._scenarios(beginnings)
        begun = [(scenario, begins.gender) for scenario, begins in zip(scenarios, beginnings, strict=True)]
        casts = [cast(self._order, self._language, plan, *begun[plan.number // per_scenario]) for plan in planned]
        personas, refused_people = await self._personas(casts, taken)
        report = {
            "generator": self._generator,
            "language": self._order.language,
            "split": self._order.split,
            "seed": self._order.seed,
            "personas": len(personas),
            "scenarios": len(scenarios),
            "answers": len(personas) + len(scenarios) + refused_people.total() + refused_scenarios.total(),
            "rejected": {"scenarios": dict(sorted(refused_scenarios.items())), "personas": dict(sorted(refused_people.items()))},
            "most_alike": {"scenarios": self._stories.most_alike, "personas": self._people.most_alike},
        }
        return Written(tuple(personas), report)

    async def _scenarios(self, beginnings: Sequence[Beginning]) -> tuple[list[Scenario], Counter[str]]:
        scenarios: list[Scenario] = []

        def take(number: int, scenario: Scenario) -> None:
            self._stories.take(scenario.id, list(scenario.texts()), said_in(scenario))
            scenarios.append(scenario)

        asker = self._asker()
        await asker.ask([self._questions.scenario(one, self._told.get(one.domain.name, [])) for one in beginnings], take)
        return scenarios, asker.rejected

    async def _personas(self, casts: Sequence[Cast], taken: Callable[[Sequence[Persona]], None]) -> tuple[list[Persona], Counter[str]]:
        personas: list[Persona] = []

        def take(number: int, person: Person) -> None:
            one = casts[number]
            persona = persona_of(self._order, self._language, one, person, self._generator)
            self._people.take(persona.persona_id, [without_names(text, persona) for text in (person.habits, person.speech, person.manner)])
            personas.append(persona)
            if number + 1 == len(casts) or casts[number + 1].scenario is not one.scenario:
                taken(personas)

        asker = self._asker()
        await asker.ask([self._questions.person(one) for one in casts], take)
        return personas, asker.rejected

    def _asker(self) -> Asker:
        return Asker(self._endpoint, self._concurrency, self._parameters.max_repairs)


def write_personas(out: Path, order: PersonaOrder, settings: Settings, model: str | None, apart_from: Sequence[Path]) -> dict[str, Any]:
    """The report of the run. `apart_from` are persona files that nothing new may resemble. Raises ValueError or EndpointError."""
    named = (model or settings.authoring.model or "").strip()
    if not named:
        raise ValueError("no model writes: name one of the endpoint with --model, or as authoring.model in params.yaml")
    parameters = WriterParameters(**settings.authoring.model_dump() | {"model": named})
    if out.is_dir():
        raise ValueError(f"{out} is a folder: --backend llm writes one file, name it with -o")
    known = [persona for path in apart_from for persona in validate_file(path)]
    connection = to_user(settings, [named], "personas.db")
    connection.check()
    beside = out.name.removesuffix(".jsonl")
    unfinished = out.with_name(f"{beside}.unfinished.jsonl")

    async def asked() -> Written:
        async with connection as endpoint:

            def taken(personas: Sequence[Persona]) -> None:
                _write(unfinished, personas)
                print(f"{len(personas)} of {order.count} personas; {endpoint.ledger.line()}", file=sys.stderr)

            return await Writer(endpoint, order, parameters, settings.endpoint.concurrency, load_library(), known).write(taken)

    written = asyncio.run(asked())
    validate_personas(out.name, written.personas)
    _write(out, written.personas)
    write_json(out.with_name(f"{beside}.report.json"), written.report)
    unfinished.unlink(missing_ok=True)
    return written.report


def _write(path: Path, personas: Sequence[Persona]) -> None:
    write_jsonl(path, [persona.model_dump(mode="json") for persona in personas])
