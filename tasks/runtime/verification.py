"""Deriving transcripts again: a file, or all of a run's folder with the personas, parameters and stored answers that lie beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

from rlver.components.domain.emotion import ImpossibleDialogue, check_stops
from rlver.components.domain.files import BadFile, read_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Rounding
from rlver.components.domain.registry import APPRAISERS, SIMULATORS, SPEAKERS
from rlver.components.domain.transcript import Dialogue, SimulatorTag, StopReason
from rlver.components.personas.schema import validate_file
from rlver.components.replay.verification import NotRederivable, first_difference
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.users.distilled.folder import folder_of
from rlver.tasks.runtime.appraisers import names_of, recorded_user

LLM = "llm"
LEARNED = "distilled:"  # how an appraiser is named that lies in a folder
USER_ANSWERS = Path("answers") / "user.db"
PLACES = {  # of transcripts, each with that of the personas they were held with
    "transcripts": "data/personas",
    "paper/transcripts": "data/personas",
    "recipes/transcripts": "recipes/data",
    "pretrained/transcripts": "pretrained/data/personas",
    "bigger/transcripts": "bigger/data/personas",
}
_ENDING = re.compile(r"(-s\d+|-raw|-warmup)$")  # a seed of the paper run; a larger model as it came, or after its warm-up


class Differs(ValueError):
    """A transcript is not what its replies give; the message says where."""


def verified(
    transcripts: Path,
    people: Callable[[bool], Mapping[str, Persona]],
    settings: Settings,
    stored: Path,
    appraiser: str | None = None,
    must_derive: bool = False,
) -> str:
    """Derive every dialogue of a file again; one line that says from what. `people(needed)` gives the personas by id, `stored` is the file of an
    LLM user's answers: without it the changes are only added up, unless the file `must_derive`. Raises Differs at the first difference, with
    file, line, dialogue, turn, expected and found, and NotRederivable."""
    dialogues = load_transcripts(transcripts)
    kinds = {dialogue.simulator.kind for dialogue in dialogues}
    lines = [line for line, _ in read_jsonl(transcripts)]
    for line, dialogue in zip(lines, dialogues, strict=True):
        if _is_of_users(dialogue.simulator.kind):
            try:
                check_stops(dialogue, settings.simulator.rules)
            except ImpossibleDialogue as error:
                raise BadFile(f"{transcripts}:{line}: {error}") from error
    count = f"{transcripts}: {len(dialogues)} dialogues, {sum(len(dialogue.turns) for dialogue in dialogues)} appraisals"
    if kinds == {LLM} and not stored.is_file():
        if must_derive:
            raise NotRederivable(f"{transcripts}: an LLM was the user, and its answers are not in {stored}")
        return f"{count}: every emotion follows from the recorded changes; whether a model said so, nobody can tell without {stored}"
    if appraiser and appraiser.partition(":")[0] not in (found := {names_of(kind)[0] for kind in kinds}):
        raise ValueError(f"--appraiser {appraiser}: {transcripts} was appraised by {', '.join(sorted(found))}; leave the option out")
    known = people(kinds <= {"scripted", LLM})
    appraised_by = appraiser or settings.simulator.appraiser or ""
    learned = appraised_by.startswith(LEARNED) and folder_of(appraised_by)
    if learned and not learned.is_dir() and any(LEARNED[:-1] in names_of(kind) for kind in kinds):
        raise NotRederivable(f"{transcripts}: the appraiser it was held with is not in {learned}")
    with _answered_before(stored) if any(map(_asks_models, kinds)) else nullcontext() as endpoint:

        def named(tag: SimulatorTag, is_appraiser: bool) -> Any:
            return recorded_user(settings, tag, is_appraiser, appraised_by, endpoint)

        rounded = list[list[Rounding]]()
        for line, dialogue in zip(lines, dialogues, strict=True):
            rounded.append([])
            try:
                difference = first_difference(dialogue, known, named, rounded[-1])
            except NotRederivable as error:
                raise NotRederivable(f"{transcripts}:{line}: {error}") from error
            if difference is not None:
                raise Differs(f"{transcripts}:{line}: {difference}")
    answers = f" and the answers in {stored}" if LLM in kinds else ""
    return f"{count}: every emotion follows from its replies{answers}{_within(rounded)}{_not_shown(dialogues)}"


def verify_folder(folder: Path) -> Iterator[tuple[str, bool]]:
    """A line for each file, and whether it was derived again; one that nobody can derive here is told and passed over.

    Raises Differs at the first difference, BadFile for a broken file or a folder without transcripts.
    """
    files = [file for place in PLACES for file in sorted((folder / place).rglob("*.jsonl"))]
    if not files:
        raise BadFile(f"{folder}: no transcripts in {', '.join(PLACES)}; name a run's folder (the one above), or a transcript file")

    read = cache(validate_file)

    def people(transcripts: Path, needed: bool) -> Mapping[str, Persona]:
        """Of all personas; where two pipelines have others of one id, those of this file's own."""
        own = next(folder / PLACES[place] for place in PLACES if transcripts.is_relative_to(folder / place))
        every = [file for place in ("data/personas", "*/data/personas", "recipes/data/*") for file in folder.glob(f"{place}/*.jsonl")]
        if needed and not every:
            raise BadFile(
                f"{folder / 'data' / 'personas'}: no personas (*.jsonl) there, so no dialogue can be derived again; put the files of personas there"
            )
        found = sorted(every, key=lambda file: (file.is_relative_to(own), transcripts.stem in file.parts, file))
        return {persona.persona_id: persona for file in found for persona in read(file)}

    for file in files:
        try:
            settings = _with_appraiser_in(folder, load_settings(folder / "params.yaml", _variant(file, folder)))
            yield verified(file, partial(people, file), settings, folder / USER_ANSWERS, must_derive=True), True
        except NotRederivable as error:
            yield f"NOT VERIFIED {error}", False


def _with_appraiser_in(folder: Path, settings: Settings) -> Settings:
    """The settings of a run there, whose learned appraiser lies in it wherever this process is."""
    named = settings.simulator.appraiser or ""
    if not named.startswith(LEARNED):
        return settings
    there = settings.simulator.model_copy(update={"appraiser": f"{LEARNED}{folder / folder_of(named)}"})
    return settings.model_copy(update={"simulator": there})


def by_id(personas: Path) -> Mapping[str, Persona]:
    return {persona.persona_id: persona for persona in validate_file(personas)}


def _within(rounded: Sequence[Sequence[Rounding]]) -> str:
    """How many dialogues, of those verified, another machine has rounded otherwise, and by how much at most; nothing where none."""
    every = [one for dialogue in rounded for one in dialogue]
    if not every:
        return ""
    probability, points, change = (max(numbers) for numbers in zip(*every, strict=True))
    return (
        f"; {sum(map(bool, rounded))} dialogues only within rounding ({len(every)} appraisals, by at most {probability:.2f} in a probability, "
        f"{points:.2f} points, {change} of the change; docs/hearing.md)"
    )


def _not_shown(dialogues: Sequence[Dialogue]) -> str:
    """How many dialogues ended for a reason of which their replies show nothing, or were only appraised again; nothing where none."""
    full = sum(dialogue.stop_reason is StopReason.CONTEXT_FULL for dialogue in dialogues)
    failed = sum(dialogue.stop_reason is StopReason.FAILED for dialogue in dialogues)
    told = [f"{count} {how}" for count, how in ((full, "ended with a full context"), (failed, "failed")) if count]
    words = sum(not _is_of_users(dialogue.simulator.kind) for dialogue in dialogues)
    given = (
        f"; of {words} only the appraisals were derived: the user's words, where they begin and why they end are as recorded"
        if words
        else ""
    )
    return (f"; {' and '.join(told)}, which replies alone cannot confirm" if told else "") + given


def _answered_before(stored: Path) -> AbstractContextManager[Any]:
    """The endpoint that says what the models once answered and asks nobody."""
    from rlver.components.endpoint.opening import EndpointRun, stored_answers

    return stored_answers(stored, EndpointRun("verify"))


def _is_of_users(kind: str) -> bool:
    """Whether a tag of this kind is of dialogues that were held with a simulated user, and so ended where its rules say."""
    names = kind.split("+")
    return SIMULATORS.has(kind) or (len(names) == 2 and APPRAISERS.has(names[0]) and SPEAKERS.has(names[1]))


def _asks_models(kind: str) -> bool:
    """Of a kind nobody knows here, no: it cannot be derived again anyway."""
    return any(
        registry.load(name).asks_models for name in names_of(kind) for registry in (SIMULATORS, APPRAISERS, SPEAKERS) if registry.has(name)
    )


def _variant(file: Path, folder: Path) -> str | None:
    """The recipe, or the overlay that file or folder is named after, without what stands at its end; None where there is none."""
    if file.is_relative_to(folder / "recipes"):
        return file.stem
    named = [file.stem, *(parent.name for parent in file.relative_to(folder).parents)]
    known = (name for one in named for name in (one, _ENDING.sub("", one)) if name)
    return next((name for name in known if (folder / "params" / f"{name}.yaml").is_file()), None)
