"""Recorded dialogues once more: the one replay, and what it serves: appraising anew, second opinions, and verification beside this.

A recording is a speaker who says again what was said, so any appraiser can be put together with it. The user's words were chosen by somebody
else, so nothing here can be told about the *speaker*; the tag says so. Every reply is appraised, also those after a point where this user
would have left: cutting them off would throw recorded data away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from rlver.components.domain.emotion import HIGHEST, LOWEST, EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import (
    About,
    Appraiser,
    AppraiserKind,
    ReadsAhead,
    SimulatedUser,
    SimulatorUnavailable,
    UnfamiliarUser,
    UserSession,
    Utterance,
    exchanges_of,
    now,
)
from rlver.components.domain.transcript import Appraisal, Dialogue, StopReason, Turn
from rlver.components.formats.foreign import Recording

AT_ONCE = 64  # dialogues; an appraiser may begin with all replies of each
APPRAISER, WITHOUT_PERSONA = "-appraiser", "-without-persona"  # behind the kind of appraiser in the tag of an appraised recording


class UnreadableLanguage(ValueError):
    """The appraiser does not read the language of the dialogue; its points would mean nothing."""


@dataclass
class RecordedSpeaker:
    """Says what was recorded, whatever is felt about the replies."""

    turns: Sequence[Turn]
    _said: int = 0

    async def open(self) -> Utterance:
        return await self.speak(0)

    async def hear(self, reply: str, appraisal: Appraisal) -> None:
        pass

    async def speak(self, emotion: int) -> Utterance:
        turn = self.turns[self._said]
        self._said += 1
        return Utterance(turn.user, turn.cue)


async def replayed(user: UserSession, start: int, turns: Sequence[Turn]) -> AsyncIterator[Turn]:
    """The turns as this user has them, given the recorded replies: what it says, its appraisals, its emotions; none after its goodbye.

    Raises SimulatorUnavailable.
    """
    emotion = start
    appraiser = user.appraiser if isinstance(user, SimulatedUser) else None
    begun: Sequence[Future[Any]] = appraiser.ahead(exchanges_of(turns)) if isinstance(appraiser, ReadsAhead) else ()
    try:
        for number, turn in enumerate(turns):
            said = await (user.speak(emotion) if number else user.open())
            if said.wants_to_end:
                return
            appraisal = await user.appraise(turn.assistant)
            emotion = apply_change(emotion, appraisal.change)
            yield turn.model_copy(update={"user": said.text, "cue": said.cue, "emotion": emotion, "appraisal": appraisal})
    finally:
        for reading in begun:
            reading.cancel()


def appraised(appraiser: Appraiser, start: int, turns: Sequence[Turn]) -> AsyncIterator[Turn]:
    """The recorded turns with the emotions and reasons of this appraiser."""
    return replayed(SimulatedUser(appraiser, RecordedSpeaker(turns), start), start, turns)


def appraised_now(appraiser: Appraiser, start: int, turns: Sequence[Turn]) -> tuple[tuple[Turn, ...], str | None]:
    """The same by an appraiser that never waits; and, if it abstains, why, with the turns before that."""

    async def follow() -> str | None:
        try:
            async for turn in appraised(appraiser, start, turns):
                found.append(turn)
        except SimulatorUnavailable as error:
            return f"turn {len(found) + 1}: {error}"
        return None

    found: list[Turn] = []
    abstained = now(follow())
    return tuple(found), abstained


def reappraise(
    recording: Recording | Dialogue,
    persona: Persona | None,
    kind: AppraiserKind,
    rules: EmotionRules,
    original: Mapping[str, Any] | None = None,
) -> Dialogue:
    """The transcript of a recording by an appraiser that never waits; `original` is its imported record, if it should know and keep it.

    Raises UnreadableLanguage, and ValueError for an impossible start. A dialogue that was recorded as failed stays failed, and one whose
    user the appraiser knows nothing of becomes so: it has no final emotion.
    """
    if refusal := kind.refusal(recording.turns):
        raise UnreadableLanguage(f"{recording.dialogue_id}: {refusal}")
    start = rules.start if recording.emotion_start is None else recording.emotion_start
    if not LOWEST <= start <= HIGHEST:
        raise ValueError(f"{recording.dialogue_id}: emotion_start must be {LOWEST}..{HIGHEST}, got {start}")
    about = About(persona, recording.hidden_need, original)
    turns, abstained = appraised_now(kind.appraiser(about, recording.seed), start, recording.turns)
    emotion = turns[-1].emotion if turns else start
    assert emotion is not None
    error = recording.error or abstained
    ended = stop_reason(emotion, len(turns), wants_to_end=len(turns) < rules.max_turns, rules=rules)
    known = kind.tag.kind + APPRAISER + ("" if persona else WITHOUT_PERSONA)
    return Dialogue(
        dialogue_id=recording.dialogue_id,
        persona_id=recording.persona_id,
        hidden_need=persona.hidden_need.value if persona else recording.hidden_need,
        policy=recording.policy,
        seed=recording.seed,
        simulator=kind.tag.model_copy(update={"kind": known}),
        emotion_start=start,
        emotion_final=None if error else emotion,
        stop_reason=StopReason.FAILED if error or ended is None else ended,
        error=error,
        turns=turns,
        original=None if original is None else dict(original),
    )


def goes_on_after_its_end(dialogue: Dialogue, rules: EmotionRules) -> bool:
    """Whether the emotion reached the ceiling, or fell below the floor, before the last reply: held with this appraiser, the dialogue would
    have ended there, and with the emotion of that moment."""
    earlier = [turn.emotion for turn in dialogue.turns[:-1] if turn.emotion is not None]
    return any(stop_reason(emotion, 0, wants_to_end=False, rules=rules) is not None for emotion in earlier)


async def final_emotions(kind: AppraiserKind, dialogues: Sequence[Dialogue], personas: Mapping[str, Persona]) -> dict[str, int]:
    """By id, what the dialogues are worth to another appraiser; those that it gave no readable answer on are left out."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def finally_felt(one: Dialogue) -> int | None:
        async with slots:
            return await _final_emotion(kind, one, personas[one.persona_id])

    found = await asyncio.gather(*map(finally_felt, dialogues))
    return {one.dialogue_id: emotion for one, emotion in zip(dialogues, found, strict=True) if emotion is not None}


async def _final_emotion(kind: AppraiserKind, dialogue: Dialogue, persona: Persona) -> int | None:
    """The recorded words, emotions from the first reply on anew, no stop before their end."""
    emotion: int | None = dialogue.emotion_start
    try:
        async for turn in appraised(kind.appraiser(About(persona), dialogue.seed), dialogue.emotion_start, dialogue.turns):
            emotion = turn.emotion
    except SimulatorUnavailable as error:
        if isinstance(error.__cause__, UnfamiliarUser):
            raise error.__cause__ from None  # an appraiser of other users was chosen: nothing it says here counts
        return None
    return emotion
