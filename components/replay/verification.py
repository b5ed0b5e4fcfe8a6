"""Re-deriving recorded dialogues: every message, appraisal and emotion of a scripted transcript, from its replies alone; of an LLM user's,
from its replies and the stored answers of the models.

Of a dialogue with a simulated user everything but the policy's replies is re-derived: what the user said (under a shift, as its version
names it), whether it was a cue, the appraisal in every field, the emotion. Of a re-appraised recording the user's words are given and the rest is re-derived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, Rounding, Rounds, Simulator, SimulatorUnavailable, SpeakerKind
from rlver.components.domain.transcript import Dialogue, SimulatorTag, StopReason, Turn
from rlver.components.replay.reappraisal import APPRAISER, WITHOUT_PERSONA, appraised_now, replayed
from rlver.components.users.distilled.appraiser import Distilled, DistilledAppraiser
from rlver.components.users.distilled.folder import read_folder
from rlver.components.users.scripted.simulator import ScriptedAppraiser, ScriptedSimulator
from rlver.components.users.shifts.users import ShiftedUser, UnknownVersion, unshifted, user_of
from rlver.components.users.together import Brought, Together

SCRIPTED, LLM, DISTILLED = "scripted", "llm", "distilled"
_KNOWN_HERE = {SCRIPTED, LLM, f"{DISTILLED}+{SCRIPTED}", f"{DISTILLED}+{LLM}"} | {
    f"{kind}{APPRAISER}{without}" for kind in (SCRIPTED, LLM, DISTILLED) for without in ("", WITHOUT_PERSONA)
}


class NotRederivable(ValueError):
    """A dialogue that nobody can re-derive here: another simulator or version, or its persona is missing."""


@dataclass(frozen=True)
class Mismatch:
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
    others: Callable[[SimulatorTag, bool], Any] | None = None,
    rounded: list[Rounding] | None = None,
) -> Mismatch | None:
    """The first difference between `dialogue` and what is re-derived from its replies; None if there is none.

    `llm` gives the LLM user of a difficulty, who speaks from stored answers; `learned` is the folder of a distilled appraiser; `others` gives
    the Simulator of any other tag, or the AppraiserKind where its second argument says so. What an appraiser may have given on another machine
    (Rounds, in protocols.py) is no difference where `rounded` is a list, which takes it up. A last turn without appraisal (the dialogue failed there)
    is not compared. Raises NotRederivable.
    """
    turns = [turn for turn in dialogue.turns if turn.appraisal is not None]
    persona = personas.get(dialogue.persona_id)
    try:
        derived = _derived(dialogue, turns, persona, llm, learned, others and _beside(others, turns, rounded))
    except (NotRederivable, UnknownVersion, SimulatorUnavailable) as error:
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: {error}") from error
    for number, (expected, found) in enumerate(zip(derived.turns, turns, strict=True), start=1):
        for what, wanted, got in _fields(expected, found):
            if wanted != got:
                return Mismatch(dialogue.dialogue_id, number, what, wanted, got)
    if dialogue.stop_reason is StopReason.GOODBYE and derived.goes_on is not None:
        return Mismatch(dialogue.dialogue_id, len(turns) + 1, "user", derived.goes_on, str(dialogue.stop_reason))
    return None


@dataclass(frozen=True)
class _Derived:
    """`goes_on` is what the user would have said after the last turn; None where that was goodbye or nobody can know."""

    turns: Sequence[Turn]
    goes_on: str | None = None


def _derived(
    dialogue: Dialogue,
    turns: Sequence[Turn],
    persona: Persona | None,
    llm: Callable[[str], Simulator] | None,
    learned: Path | None,
    others: Callable[[SimulatorTag, bool], Any] | None,
) -> _Derived:
    """By the user of the transcript; of a re-appraised recording by its appraiser, for the words are given."""
    tag = dialogue.simulator
    if others is not None and tag.kind not in _KNOWN_HERE:
        return _by_others(dialogue, turns, persona, others)
    if tag.kind.startswith(DISTILLED):
        model = _learned(dialogue, learned)
        if tag.kind.startswith(DISTILLED + APPRAISER):
            return _appraised(dialogue, turns, persona, DistilledAppraiser(model))
        of_difficulty = llm if tag.kind == f"{DISTILLED}+{LLM}" and llm is not None else ScriptedSimulator
        speaker = _of_difficulty(dialogue, of_difficulty)
        return _of_tag(dialogue, turns, persona, Together(DistilledAppraiser(model), cast(SpeakerKind, speaker), dialogue.emotion_start))
    if tag.kind == LLM and llm is not None:
        return _of_tag(dialogue, turns, persona, _of_difficulty(dialogue, llm))
    if tag.kind not in (SCRIPTED, SCRIPTED + APPRAISER, SCRIPTED + APPRAISER + WITHOUT_PERSONA):
        can = "only a scripted user, an LLM with its stored answers and a distilled one can be re-derived"
        raise NotRederivable(f"its user was {tag.kind}; {can}")
    user = user_of(tag)
    if tag.kind == SCRIPTED:
        return asyncio.run(_replayed(dialogue, turns, _known(dialogue, persona), user))
    return _appraised(dialogue, turns, persona, ScriptedAppraiser(tag.difficulty))


def _beside(
    others: Callable[[SimulatorTag, bool], Any], turns: Sequence[Turn], rounded: list[Rounding] | None
) -> Callable[[SimulatorTag, bool], Any]:
    """`others`, but users whose appraiser may round otherwise take up what was recorded."""
    recorded = [turn.appraisal for turn in turns if turn.appraisal is not None]

    def beside(user: Any) -> Any:
        if isinstance(user, Together):
            return replace(user, appraiser=beside(user.appraiser))
        if isinstance(user, Brought):
            return replace(user, kind=beside(user.kind))
        return user.beside(recorded, rounded) if rounded is not None and isinstance(user, Rounds) else user

    return lambda tag, is_appraiser: beside(others(tag, is_appraiser))


def _of_difficulty(dialogue: Dialogue, user: Callable[[str], Simulator]) -> Simulator:
    try:
        return user(dialogue.simulator.difficulty)
    except ValueError as error:
        raise NotRederivable(str(error)) from error


def _by_others(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, others: Callable[[SimulatorTag, bool], Any]) -> _Derived:
    """By a kind that is found by the name in the tag; its version, and that of the package that brings it, must be those of the transcript."""
    tag = dialogue.simulator
    bare = tag.model_copy(update={"kind": tag.kind.removesuffix(WITHOUT_PERSONA).removesuffix(APPRAISER)})
    try:
        user = others(unshifted(bare)[0], bare != tag)
    except ValueError as error:
        raise NotRederivable(f"its user was {tag.kind}: {error}") from error
    if bare == tag:
        return _of_tag(dialogue, turns, persona, user)
    if user.tag != bare:
        raise NotRederivable(
            f"appraised by {bare.version}, by these parameters it is {user.tag.version}; verify with the parameters of that run"
        )
    return _appraised(dialogue, turns, persona, user)


def _of_tag(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, user: Simulator) -> _Derived:
    """By this user, which must be the one of the transcript but for a shift of its words."""
    if shift := unshifted(dialogue.simulator)[1]:
        user = ShiftedUser(user, shift)
    if dialogue.simulator != user.tag:
        raise NotRederivable(
            f"its user was {dialogue.simulator.version}, by these parameters it is {user.tag.version}; verify with the parameters of that run"
        )
    return asyncio.run(_replayed(dialogue, turns, _known(dialogue, persona), user))


def _learned(dialogue: Dialogue, folder: Path | None) -> Distilled:
    """The distilled appraiser in the folder, which must be the one of the transcript."""
    if folder is None:
        raise NotRederivable("its appraiser was distilled; name its folder with --appraiser distilled:FOLDER")
    model, version = read_folder(folder), dialogue.simulator.version
    if model.version not in version.split():
        raise NotRederivable(f"appraised by {version}, the one in {folder} is {model.version}")
    return model


def _known(dialogue: Dialogue, persona: Persona | None) -> Persona:
    if persona is None:
        raise NotRederivable(f"persona {dialogue.persona_id} is not in the personas file; name the file it was held with")
    if dialogue.hidden_need != persona.hidden_need.value:
        raise NotRederivable(f"hidden_need is {dialogue.hidden_need}, but the persona's is {persona.hidden_need.value}")
    return persona


def _appraised(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, kind: AppraiserKind) -> _Derived:
    """The same words appraised once more."""
    who = None if dialogue.simulator.kind.endswith(WITHOUT_PERSONA) else _known(dialogue, persona)
    about = About(who, dialogue.hidden_need, dialogue.original)
    again, abstained = appraised_now(kind.appraiser(about, dialogue.seed), dialogue.emotion_start, turns)
    if abstained:
        raise NotRederivable(abstained)
    return _Derived(again)


async def _replayed(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona, user: Simulator) -> _Derived:
    """The same user once more, given the recorded replies."""
    session = user.session(persona, dialogue.seed)
    derived = [turn async for turn in replayed(session, dialogue.emotion_start, turns)]
    if dialogue.stop_reason is not StopReason.GOODBYE or not derived:
        return _Derived(derived)
    said = await session.speak(derived[-1].emotion or 0)
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
        yield f"appraisal.evidence {number}", one and one.model_dump(), other and other.model_dump()
    yield "emotion", expected.emotion, found.emotion
