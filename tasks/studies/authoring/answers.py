"""The strict reading of what the model wrote: a scenario of the library's kind, or a person; or Unusable with kind and reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlver.components.domain.persona import HiddenNeed
from rlver.components.personas.generator import EARLIEST_TALK, story_of
from rlver.components.personas.library import Scenario, placeholders
from rlver.components.personas.people import stable_hash
from rlver.components.personas.schema import LONGEST_BACKGROUND, LONGEST_FIRST_LINE
from rlver.components.users.llm.answers import NotOneObject, first_fault, gives_the_need_away, json_object, language_fault
from rlver.tasks.studies.authoring.asking import Unusable
from rlver.tasks.studies.authoring.casting import Beginning
from rlver.tasks.studies.authoring.language import Language

_ASSIGNED = ("id", "domain", "other")  # of a scenario: not the model's to say
_NO_JOB = re.compile(  # no \b: it sees no boundary between Latin letters and Han characters
    r"(?<![A-Za-z])(?:IT|(?i:games?|gaming|software|programmer|developer|coder|web designer))(?![A-Za-z])|游戏|程序员|软件|网页|码农"
)
_LONGEST_ANSWER = 30_000  # characters: a long scenario has half of it, and every text is searched for every need
_PLACEHOLDER = re.compile(r"\{\w*\}")
_SHORT_NAMES = {
    "en": {"name": "Ann", "other": "Bea"},
    "zh": {"name": "小明", "other": "晓燕"},
}  # as they are dealt out: what is said with them
_LONG_NAMES = {"name": "Maximiliane Bartholomew", "other": "Maximiliane"}  # longer than any that is dealt out

Prose = Annotated[str, Field(min_length=10, max_length=900)]


class Person(BaseModel):
    """Who one persona is, apart from the story."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    occupation: str = Field(min_length=2, max_length=100)
    hobbies: list[Annotated[str, Field(min_length=2, max_length=100)]] = Field(min_length=3, max_length=3)
    habits: Prose
    speech: Prose
    manner: Prose


def scenario_schema() -> dict[str, Any]:
    schema = Scenario.model_json_schema()
    schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in _ASSIGNED}
    schema["required"] = [key for key in schema["required"] if key not in _ASSIGNED]
    del schema["$defs"]["Other"]
    return _without_text_bounds(schema)


def person_schema() -> dict[str, Any]:
    return _without_text_bounds(Person.model_json_schema())


def _without_text_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Not every server takes them; they are checked here."""
    kept = {key: value for key, value in schema.items() if key not in ("minLength", "maxLength", "description")}
    return {key: _without_text_bounds(value) if isinstance(value, dict) else value for key, value in kept.items()}


def read_scenario(text: str, begins: Beginning, language: Language) -> Scenario:
    """Raises Unusable: malformed, language, leak or wording."""
    values = _object(text, language)
    if set(values) & set(_ASSIGNED):
        raise Unusable("malformed", "a key that was not asked for")
    digest = stable_hash(json.dumps(values, sort_keys=True))[:10]
    assigned = {
        "id": f"{begins.domain.name}-llm-{digest}",
        "domain": begins.domain.name,
        "other": {"role": begins.role, "gender": begins.role_gender},
    }
    try:
        scenario = Scenario.model_validate(values | assigned)
    except ValidationError as error:
        kind = "wording" if error.errors()[0]["type"] == "value_error" else "malformed"
        raise Unusable(kind, first_fault(error)[:300]) from None
    if fault := next(_wording_faults(scenario, language), None):
        raise Unusable("wording", fault)
    background = language.background_of(story_of(scenario, _LONG_NAMES, EARLIEST_TALK), _LONG_NAMES["name"])
    if len(background) > LONGEST_BACKGROUND:
        raise Unusable("wording", f"it must be shorter: as prose it has {len(background)} characters of at most {LONGEST_BACKGROUND}")
    ordinary = _SHORT_NAMES[language.code]
    said = (text.format(**ordinary) for text in (*scenario.openers, *scenario.lines))
    if any(told_need(text, language) for text in (background, *said)):
        raise Unusable("leak", "the story as a whole gives away what the person wants to hear")
    return scenario


def read_person(text: str, name: str, language: Language) -> Person:
    """Raises Unusable: malformed, language, leak or wording."""
    values = _object(text, language)
    try:
        person = Person.model_validate(values)
    except ValidationError as error:
        raise Unusable("malformed", first_fault(error)) from None
    for key in ("habits", "speech", "manner"):
        if name not in getattr(person, key):
            raise Unusable("wording", f"{key} must use the name {name}")
    if any("{" in one for one in _texts_of(values)):
        raise Unusable("wording", "no braces")
    if language.code == "en" and not person.occupation.startswith(("a ", "an ")):
        raise Unusable("wording", 'occupation must begin with "a" or "an"')
    if _NO_JOB.search(person.occupation):
        raise Unusable("wording", "occupation must be no job in computing or games")
    return person


def _wording_faults(scenario: Scenario, language: Language) -> Iterator[str]:
    for key, text in (("cause", scenario.cause), ("conflict.people", scenario.conflict.people)):
        if not {"name", "other"} <= placeholders(text):
            yield f"{key} must name both {{name}} and {{other}}"
    for key, clauses in (("deeds", scenario.deeds), ("own_part", scenario.own_part)):
        if not all(clause.lower().startswith(language.you) for clause in clauses):
            yield f'every clause of {key} must begin with "{language.you.strip()}"'
    if "{" in scenario.topic:
        yield "topic must name nobody and have no braces"
    for text in (*scenario.openers, *scenario.lines):
        if "？" in text:
            yield "openers and lines must not ask questions"
        if len(text) + sum(map(len, _LONG_NAMES.values())) > LONGEST_FIRST_LINE:
            yield "openers and lines must be shorter"


def _object(text: str, language: Language) -> dict[str, Any]:
    if len(text) > _LONGEST_ANSWER:
        raise Unusable("malformed", "it is far too long")
    try:
        values = json_object(text)
    except NotOneObject as error:
        raise Unusable("malformed", str(error)) from None
    for one in _texts_of(values):
        if fault := language_fault(_PLACEHOLDER.sub("", one), language.code):
            raise Unusable("language", f"every text {fault}")
        if need := told_need(one, language):
            raise Unusable("leak", f"one text gives away what the person wants to hear ({need.value.replace('_', ' ')})")
    return values


def told_need(text: str, language: Language) -> HiddenNeed | None:
    """The first hidden need that the text states, names or describes."""
    telling = (need for need in HiddenNeed if gives_the_need_away(text, need, language.need_text(need)))
    return language.stated_need(text) or next(telling, None)


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_of(one)
