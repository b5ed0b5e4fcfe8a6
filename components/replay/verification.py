"""Re-deriving recorded dialogues: every message, appraisal and emotion, from the policy's replies alone; of an LLM user's, from its replies and
the stored answers of the models.

Of a dialogue with a simulated user everything but the policy's replies is re-derived: what the user said (under a shift, as its version
names it), whether it was a cue, the appraisal in every field, the emotion. Of a re-appraised recording the user's words, cues, first emotion and end are given, and the appraisals and
later emotions are re-derived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, Rounding, Rounds, Simulator, SimulatorUnavailable
from rlver.components.domain.transcript import Dialogue, SimulatorTag, StopReason, Turn
from rlver.components.replay.reappraisal import APPRAISER, WITHOUT_PERSONA, appraised_now, replayed
from rlver.components.users.shifts.users import ShiftedUser, unshifted
from rlver.components.users.together import Brought, Together

Named = Callable[
    [SimulatorTag, bool], Any
]  # the Simulator of a tag, or its AppraiserKind where the second argument says so; raises ValueError


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
    dialogue: Dialogue, personas: Mapping[str, Persona], named: Named, rounded: list[Rounding] | None = None
) -> Mismatch | None:
    """The first difference between `dialogue` and what is re-derived from its replies by the user that `named` gives; None if there is none.

    What an appraiser may have given on another machine (Rounds, in protocols.py) is no difference where `rounded` is a list, which takes it
    up. A last turn without appraisal (the dialogue failed there) is not compared. Raises NotRederivable.
    """
    turns = [turn for turn in dialogue.turns if turn.appraisal is not None]
    try:
        derived = _derived(dialogue, turns, personas.get(dialogue.persona_id), named, rounded)
    except (NotRederivable, SimulatorUnavailable) as error:
        raise NotRederivable(f"dialogue {dialogue.dialogue_id}: {error}") from error
    for number, (expected, found) in enumerate(zip(derived.turns, turns, strict=False), start=1):
        for what, wanted, got in _fields(expected, found):
            if wanted != got:
                return Mismatch(dialogue.dialogue_id, number, what, wanted, got)
    if (ended := len(derived.turns)) < len(turns):
        return Mismatch(dialogue.dialogue_id, ended + 1, "user", str(StopReason.GOODBYE), turns[ended].user)
    if dialogue.stop_reason is StopReason.GOODBYE and derived.goes_on is not None:
        return Mismatch(dialogue.dialogue_id, len(turns) + 1, "user", derived.goes_on, str(dialogue.stop_reason))
    return None


@dataclass(frozen=True)
class _Derived:
    """`goes_on` is what the user would have said after the last turn; None where that was goodbye or nobody can know."""

    turns: Sequence[Turn]
    goes_on: str | None = None


def _derived(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, named: Named, rounded: list[Rounding] | None) -> _Derived:
    """By the user of the transcript, whose tag must be what it is here; of a re-appraised recording by its appraiser, for the words are given."""
    tag = dialogue.simulator
    bare = tag.model_copy(update={"kind": tag.kind.removesuffix(WITHOUT_PERSONA).removesuffix(APPRAISER)})
    plain, shift = unshifted(bare)
    try:
        user = named(plain, bare != tag)
    except BadFile:
        raise
    except ValueError as error:
        raise NotRederivable(f"its user was {tag.kind}: {error}") from error
    if rounded is not None:
        user = _beside(user, [turn.appraisal for turn in turns if turn.appraisal is not None], rounded)
    if shift and bare == tag:
        user = ShiftedUser(user, shift)
    if user.tag != bare:
        raise NotRederivable(
            f"made by {tag.kind} {bare.version}, here that is {user.tag.version}: verify with the parameters and the version of that run"
        )
    if tag.kind.endswith(WITHOUT_PERSONA):
        return _appraised(dialogue, turns, None, user)
    known = _known(dialogue, persona)
    return _appraised(dialogue, turns, known, user) if bare != tag else asyncio.run(_replayed(dialogue, turns, known, user))


def _beside(user: Any, recorded: Sequence[Any], rounded: list[Rounding]) -> Any:
    """The user, who takes up what was recorded where its appraiser may round otherwise."""
    if isinstance(user, Together):
        return replace(user, appraiser=_beside(user.appraiser, recorded, rounded))
    if isinstance(user, Brought):
        return replace(user, kind=_beside(user.kind, recorded, rounded))
    return user.beside(recorded, rounded) if isinstance(user, Rounds) else user


def _known(dialogue: Dialogue, persona: Persona | None) -> Persona:
    if persona is None:
        raise NotRederivable(f"persona {dialogue.persona_id} is not in the personas file; name the file it was held with")
    if dialogue.hidden_need != persona.hidden_need.value:
        raise NotRederivable(f"hidden_need is {dialogue.hidden_need}, but the persona's is {persona.hidden_need.value}")
    return persona


def _appraised(dialogue: Dialogue, turns: Sequence[Turn], persona: Persona | None, kind: AppraiserKind) -> _Derived:
    """The same words appraised once more."""
    about = About(persona, dialogue.hidden_need, dialogue.original)
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
