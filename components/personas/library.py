"""The scenario library: hand-written stories that a persona can come to talk about, one YAML file per domain.

A scenario is written so that it works with every hidden need; which need a persona has is decided later and must not be
readable here. `{name}` stands for the user and `{other}` for the main other person.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator

from rlver.components.domain.files import BadFile, load_yaml
from rlver.components.domain.persona import HiddenNeed, PersonaKind
from rlver.components.personas.needs import stated_need

SCENARIOS = Path(__file__).parent / "scenarios"
SPECIAL = Path(__file__).parent / "special_scenarios"  # one file a kind of user; see special.py

# Fields of a scenario that a Story has under the same name.
GROUPS = ("attempts", "lines", "deeds", "steps", "motives", "own_part", "hurts")
Text = Annotated[str, Field(min_length=3, max_length=600)]


class LibraryError(ValueError):
    """The library cannot be used; the message names file, scenario, field and reason, the first few problems in one line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        super().__init__(f"scenario library: {len(problems)} problem(s): {'; '.join(problems[:5])}{more}")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Other(_Part):
    role: str = Field(min_length=2, max_length=30)
    gender: Literal["f", "m"]


class DatedEvent(_Part):
    day: int = Field(ge=-36500, le=0)  # days before the conversation
    event: Text
    feeling: str = Field(min_length=3, max_length=120)


class Conflict(_Part):
    event: Text
    people: str = Field(min_length=3, max_length=200)
    inner_cause: Text


class _Told(_Part):
    """What every story has. What each field means to the simulator is said in `persona.Story`."""

    id: str = Field(pattern=r"^[a-z]+(-[a-z0-9]+)+$")
    topic: str = Field(min_length=8, max_length=120)
    ages: list[int] = Field(min_length=2, max_length=2)
    other: Other
    cause: Text
    conflict: Conflict
    present: Text
    feels_like: Text


class Scenario(_Told):
    """One story with placeholders."""

    domain: str = Field(pattern=r"^[a-z]+$")
    timeline: list[DatedEvent] = Field(min_length=4, max_length=8)
    attempts: list[Text] = Field(min_length=2, max_length=3)
    openers: list[Text] = Field(min_length=3, max_length=3)
    lines: list[Text] = Field(min_length=14, max_length=14)
    deeds: list[Text] = Field(min_length=4, max_length=4)
    steps: list[Text] = Field(min_length=4, max_length=4)
    motives: list[Text] = Field(min_length=4, max_length=4)
    own_part: list[Text] = Field(min_length=3, max_length=3)
    hurts: list[Text] = Field(min_length=4, max_length=4)

    @model_validator(mode="after")
    def _holds_together(self) -> Scenario:
        problems = [*self._shape_problems(), *self._wording_problems()]
        if problems:
            raise ValueError(", ".join(problems))
        return self

    def _shape_problems(self) -> Iterator[str]:
        youngest, oldest = self.ages
        if not 16 <= youngest <= oldest <= 60:
            yield f"ages must be two ordered numbers within 16..60, got {self.ages}"
        days = [event.day for event in self.timeline]
        if days != sorted(days) or days[-1] < -3:
            yield f"timeline days must rise and end within -3..0, got {days}"
        if not self.id.startswith(f"{self.domain}-"):
            yield f"id must start with {self.domain!r} and a hyphen"

    def _wording_problems(self) -> Iterator[str]:
        said = [*self.openers, *self.lines]
        for text in self.texts():
            unknown = sorted(placeholders(text) - {"name", "other"})
            if unknown:
                yield f"unknown placeholder {unknown} in {text!r}"
        for text in said:
            if "name" in placeholders(text):
                yield f"the user says their own name in {text!r}"
            if "?" in text:
                yield f"the user asks a question in {text!r}"
            need = stated_need(text)
            if need is not None:
                yield f"the need {need.value} is stated in {text!r}"
        for text, count in Counter(said).items():
            if count > 1:
                yield f"said {count} times: {text!r}"

    def texts(self) -> Iterator[str]:
        """Every text that is filled in when a persona is composed."""
        yield from (self.cause, self.conflict.event, self.conflict.people, self.conflict.inner_cause, self.present, self.feels_like)
        for event in self.timeline:
            yield from (event.event, event.feeling)
        for group in (self.attempts, self.openers, self.lines, self.deeds, self.steps, self.motives, self.own_part, self.hurts):
            yield from group


class SpecialScenario(_Told):
    """The story of a user of a kind: told in fewer lines than a Scenario, and with what the user presses for. `asks` goes to the simulator only."""

    group: str = ""  # scenarios of one group are dealt out to train and test by themselves
    need: Annotated[HiddenNeed, Strict(False)]
    asks: str = Field(min_length=8, max_length=120)
    jobs: list[str] = Field(default=[], max_length=3)  # where the story says what the user does
    timeline: list[DatedEvent] = Field(min_length=2, max_length=8)
    attempts: list[Text] = Field(min_length=1, max_length=3)
    openers: list[Text] = Field(min_length=2, max_length=3)
    lines: list[Text] = Field(min_length=9, max_length=14)
    presses: list[Text] = Field(min_length=8, max_length=14)
    deeds: list[Text] = Field(min_length=1, max_length=4)
    steps: list[Text] = Field(min_length=2, max_length=4)
    motives: list[Text] = Field(min_length=1, max_length=4)
    own_part: list[Text] = Field(min_length=1, max_length=3)
    hurts: list[Text] = Field(min_length=2, max_length=4)

    @property
    def domain(self) -> str:
        """The kind of user."""
        return self.id.partition("-")[0]

    @model_validator(mode="after")
    def _holds_together(self) -> SpecialScenario:
        said = [*self.openers, *self.lines, *self.presses]
        twice = [text for text, count in Counter(said).items() if count > 1]
        stated = [text for text in said if stated_need(text)]
        if self.domain not in set(PersonaKind) or twice or stated:
            raise ValueError(f"id must begin with a kind; said twice {twice}; a need is stated in {stated}")
        return self


S = TypeVar("S", bound=_Told)


class Library(_Part):
    """All scenarios, sorted by id, so that nothing depends on the order of files."""

    scenarios: tuple[Scenario, ...]

    def domains(self) -> dict[str, list[Scenario]]:
        """Domain -> its scenarios, both sorted."""
        result: dict[str, list[Scenario]] = {}
        for scenario in sorted(self.scenarios, key=lambda one: (one.domain, one.id)):
            result.setdefault(scenario.domain, []).append(scenario)
        return result


def placeholders(text: str) -> set[str]:
    """Names in braces; a stray or doubled brace, or a format in braces, counts as the placeholder named by the text itself."""
    if "{{" in text or "}}" in text:
        return {text}
    try:
        return {text if form or conversion else name for _, name, form, conversion in string.Formatter().parse(text) if name is not None}
    except ValueError:
        return {text}


def load_library(folder: Path | None = None) -> Library:
    """Every `*.yaml` of the folder; this project's own, which are read once, without one. Raises LibraryError with all problems of all files."""
    return _own() if folder is None else _read_all(folder)


@cache
def _own() -> Library:
    return _read_all(SCENARIOS)


def _read_all(folder: Path) -> Library:
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise LibraryError([f"{folder}: no *.yaml file here; name the folder of the scenarios"])
    problems: list[str] = []
    scenarios = [one for path in files for one in _read(path, Scenario, problems)]
    for scenario_id, count in sorted(Counter(one.id for one in scenarios).items()):
        if count > 1:
            problems.append(f"scenario id {scenario_id} is used {count} times")
    if problems:
        raise LibraryError(problems)
    return Library(scenarios=tuple(sorted(scenarios, key=lambda one: one.id)))


def load_special(kind: PersonaKind, folder: Path = SPECIAL) -> tuple[SpecialScenario, ...]:
    """The scenarios of one kind of user, sorted by id. Raises LibraryError with all problems of the file."""
    path = folder / f"{kind}.yaml"
    problems: list[str] = []
    found = _read(path, SpecialScenario, problems)
    if problems or len({one.id for one in found}) < len(found) or any(one.domain != kind for one in found):
        raise LibraryError(problems or [f"{path.name}: an id is used twice or is of another kind"])
    return tuple(sorted(found, key=lambda one: one.id))


def _read(path: Path, kind: type[S], problems: list[str]) -> list[S]:
    """The scenarios of a file; what is wrong with it goes to `problems`."""
    try:
        entries = load_yaml(path)
    except BadFile as error:
        problems.append(str(error))
        return []
    if not isinstance(entries, list) or not entries:
        problems.append(f"{path.name}: expected a list of scenarios, got {type(entries).__name__}")
        return []
    found: list[S] = []
    for number, raw in enumerate(entries, start=1):
        try:
            found.append(kind.model_validate(raw))
        except ValidationError as error:
            where = f"{path.name}: {raw['id'] if isinstance(raw, dict) and 'id' in raw else f'entry {number}'}"
            for one in error.errors():
                field = ".".join(map(str, one["loc"]))
                problems.append(f"{where}: {field and f'{field}: '}{one['msg'].removeprefix('Value error, ')}")
    return found
