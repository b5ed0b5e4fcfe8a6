"""Re-deriving recorded dialogues: every message, appraisal and emotion of a scripted transcript, from its replies alone; of an LLM user's,
from its replies and the stored answers of the models.

Of a dialogue with a simulated user everything but the policy's replies is re-derived: what the user said (under a shift, as its version
names it), whether it was a cue, the appraisal in every field, the emotion. Of a re-appraised recording the user's words are given and the rest is re-derived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from rlver.components.domain.emotion import apply_change
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator, SimulatorUnavailable
from rlver.components.domain.transcript import Dialogue, Evidence, StopReason, Turn
from rlver.components.replay.reappraisal import BLIND, INFORMED, appraisals_of, learned_turns, listener_of
from rlver.components.replay.reappraisal import LEARNED_BLIND as LEARNED_BLIND
from rlver.components.replay.reappraisal import LEARNED_INFORMED as LEARNED_INFORMED
from rlver.components.users.distilled.appraiser import DistilledSimulator, Speaker
from rlver.components.users.distilled.folder import read_folder
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.components.users.shifts.users import UnknownVersion, user_of

SCRIPTED, LLM, DISTILLED = "scripted", "llm", "distilled"


class NotRederivable(ValueError):
    """A dialogue that nobody can re-derive here: another simulator or version, or its persona is missing."""


@dataclass(frozen=True)
class Difference:
    """The first place where a transcript is not what its replies give. `turn` counts from 1."""

    dialogue_id: str
    turn: int
    what: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"dialogue {self.dialogue_id}: turn {self.turn}: {self.what}: expected {self.expected!r}, found {self.found!r}"


def first_difference(
    dialogue: Dialogue,
    personas: Mapping[str, Persona],
    llm: Callable[[str], Simulator] | None = None,
    learned: Path | None = None,
) -> Difference | None:
    """The first difference between `dialogue` and what is re-derived from its replies; None if there is none.

    `llm` gives the LLM user of a difficulty, who speaks from stored answers; `learned` is the folder of a distilled appraiser. A last turn without appraisal (the dialogue failed there) is
    not compared. Raises NotRederivable.
    """
    turns = [turn for turn in dialogue.turns if turn.appraisal is not None]
    derived = _derived(dialogue, turns, personas, llm, learned)
    for number, (expected, found) in enumerate(zip(derived.turns, turns, strict=True), start=1):
        for what, wanted, got in _fields(expected, found):
            if wanted != got:
                return Difference(dialogue.dialogue_id, number, what, wanted, got)
    if dialogue.stop_reason is StopReason.GOODBYE and derived.goes_on is not None:
        return Difference(dialogue.dialogue_id, len(turns) + 1, "user", derived.goes_on, str(dialogue.stop_reason))
    return None


@dataclass(frozen=True)
class _Derived:
    """`goes_on` is what the user would have said after the last turn; None where that was goodbye or nobody can know."""

    turns: Sequence[Turn]
    goes_on: str | None = None


def _derived(
    dialogue: Dialogue,
    turns: Sequence[Turn],
    personas: Mapping[str, Persona],
    llm: Callable[[str], Simulator] | None,
    learned: Path | None,
) -> _Derived:
    tag, persona = dialogue.simulator, personas.get(dialogue.persona_id)
    if tag.kind.startswith(DISTILLED):
        return _learned(dialogue, turns, persona, llm, learned)
    if tag.kind == LLM and llm is not None:
        return _from_answers(dialogue, turns, persona, llm(tag.difficulty))
    if tag.kind not in (SCRIPTED, INFORMED, BLIND):
        can = "only a scripted user, an LLM with its stored answers and a distilled one can be re-derived"
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: its user was {tag.kind}; {can}")
    try:
        user = user_of(tag)
    except UnknownVersion as error:
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: {error}") from error
    if tag.kind == BLIND:
        return _appraised(dialogue, turns, None)
    persona = _known(dialogue, persona)
    if tag.kind == SCRIPTED:
        return asyncio.run(_replayed(dialogue, turns, persona, user))
    return _appraised(dialogue, turns, persona)


def _from_answers(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, user: Simulator) -> _Derived:
    if dialogue.simulator != user.tag:
        raise NotRederivable(
            f"dialogue {dialogue.dialogue_id}: its user was {dialogue.simulator.version}, by these parameters it is {user.tag.version}"
        )
    try:
        return asyncio.run(_replayed(dialogue, turns, _known(dialogue, persona), user))
    except SimulatorUnavailable as error:
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: {error}") from error


def _learned(
    dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, llm: Callable[[str], Simulator] | None, folder: Path | None
) -> _Derived:
    """By the distilled appraiser, which must be the one of the transcript; where somebody spoke, by that speaker too."""
    tag = dialogue.simulator
    if folder is None:
        raise NotRederivable(
            f"dialogue {dialogue.dialogue_id}: its appraiser was distilled; name its folder with --appraiser distilled:FOLDER"
        )
    model = read_folder(folder)
    if model.version not in tag.version.split():
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: appraised by {tag.version}, the one in {folder} is {model.version}")
    if tag.kind in (LEARNED_INFORMED, LEARNED_BLIND):
        who = _known(dialogue, persona) if tag.kind == LEARNED_INFORMED else None
        again, abstained = learned_turns(dialogue.hidden_need, dialogue.original, who, model, dialogue.emotion_start, tuple(turns))
        if abstained:
            raise NotRederivable(f"dialogue {dialogue.dialogue_id}: {abstained}")
        return _Derived(again)
    speaker = llm(tag.difficulty) if tag.kind == f"{DISTILLED}+{LLM}" and llm is not None else ScriptedSimulator(tag.difficulty)
    return _from_answers(dialogue, turns, persona, DistilledSimulator(cast(Speaker, speaker), folder))


def _known(dialogue: Dialogue, persona: Persona | None) -> Persona:
    if persona is None:
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: persona {dialogue.persona_id} is not in the personas file")
    if dialogue.hidden_need != persona.hidden_need.value:
        raise NotRederivable(
            f"dialogue {dialogue.dialogue_id}: hidden_need is {dialogue.hidden_need}, but the persona's is {persona.hidden_need.value}"
        )
    return persona


def _appraised(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None) -> _Derived:
    """The same words appraised once more."""
    listener = listener_of(dialogue.hidden_need, persona)
    emotion, derived = dialogue.emotion_start, list[Turn]()
    for turn, appraisal in zip(turns, appraisals_of(listener, dialogue.simulator.difficulty, turns), strict=True):
        emotion = apply_change(emotion, appraisal.change)
        derived.append(turn.model_copy(update={"appraisal": appraisal, "emotion": emotion}))
    return _Derived(derived)


async def _replayed(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona, user: Simulator) -> _Derived:
    """The same user once more, given the recorded replies."""
    session = user.session(persona, dialogue.seed)
    emotion, derived = dialogue.emotion_start, list[Turn]()
    for turn in turns:
        said = await (session.speak(emotion) if derived else session.open())
        appraisal = await session.appraise(turn.assistant)
        emotion = apply_change(emotion, appraisal.change)
        derived.append(Turn(user=said.text, assistant=turn.assistant, emotion=emotion, appraisal=appraisal, cue=said.cue))
    if dialogue.stop_reason is not StopReason.GOODBYE or not derived:
        return _Derived(derived)
    said = await session.speak(emotion)
    return _Derived(derived, None if said.wants_to_end else said.text)


def _fields(expected: Turn, found: Turn) -> Iterator[tuple[str, Any, Any]]:
    """(name, expected, found) of everything that is derived; of an appraisal the change first, because a reader asks for it first."""
    yield "user", expected.user, found.user
    yield "cue", expected.cue, found.cue
    assert expected.appraisal is not None and found.appraisal is not None
    wanted, got = (appraisal.model_dump(exclude={"evidence"}) for appraisal in (expected.appraisal, found.appraisal))
    for name in ("change", *(name for name in wanted if name != "change")):
        yield f"appraisal.{name}", wanted[name], got[name]
    for number, (one, other) in enumerate(zip_longest(expected.appraisal.evidence, found.appraisal.evidence), start=1):
        yield f"appraisal.evidence {number}", _plain(one), _plain(other)
    yield "emotion", expected.emotion, found.emotion


def _plain(evidence: Evidence | None) -> dict[str, Any] | None:
    return None if evidence is None else evidence.model_dump()
