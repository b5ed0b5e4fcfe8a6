"""Where an appraiser knows least, and what the LLM user says there: recordings to learn from next (active learning).

A dialogue is asked about as a whole, from its first reply on: what is felt about a reply rests on what was felt before, and only a whole
dialogue can be learned from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rlver.components.domain.emotion import EmotionRules, stop_reason
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, SimulatorUnavailable, UnfamiliarUser
from rlver.components.domain.transcript import Dialogue, StopReason, Turn
from rlver.components.replay.reappraisal import APPRAISER, appraised
from rlver.components.users.distilled.appraiser import Distilled, FollowedDialogue
from rlver.components.users.distilled.features import known_from, moments_of

KIND = "llm" + APPRAISER


class Doubt(NamedTuple):
    """`sure` is the mean probability that the appraiser has the direction right, from 0.5 on; 0 for a user it abstains from."""

    sure: float
    dialogue: Dialogue


def doubts(model: Distilled, dialogues: Iterable[Dialogue], personas: Mapping[str, Persona]) -> list[Doubt]:
    """Those with replies, the least sure first; equals in the order of their ids."""
    found = [Doubt(_sure(model, one, personas.get(one.persona_id)), one) for one in dialogues if one.turns]
    return sorted(found, key=lambda doubt: (doubt.sure, doubt.dialogue.dialogue_id))


def _sure(model: Distilled, dialogue: Dialogue, persona: Persona | None) -> float:
    known = known_from(dialogue.hidden_need, dialogue.original, persona)
    followed = FollowedDialogue(model, known.need)
    moments = moments_of(known, [turn.user for turn in dialogue.turns], [turn.assistant for turn in dialogue.turns])
    try:
        every = [followed.judge(moment).sure for moment in moments]
    except UnfamiliarUser:
        return 0.0
    return sum(every) / len(every)


def within(ordered: Iterable[Doubt], most_replies: int) -> Iterator[Doubt]:
    """The first ones that together have at most so many replies; one that does not fit is passed over."""
    left = most_replies
    for doubt in ordered:
        if len(doubt.dialogue.turns) <= left:
            left -= len(doubt.dialogue.turns)
            yield doubt


async def felt_by(kind: AppraiserKind, dialogue: Dialogue, persona: Persona, rules: EmotionRules) -> Dialogue | None:
    """The same words as a user of this kind feels them, up to where that user would have left. None where the model gave no usable answer.

    Raises BudgetExceeded.
    """
    turns, ended = list[Turn](), StopReason.GOODBYE
    try:
        async for turn in appraised(kind.appraiser(About(persona), dialogue.seed), dialogue.emotion_start, dialogue.turns):
            assert turn.emotion is not None
            turns.append(turn)
            if (stop := stop_reason(turn.emotion, len(turns), wants_to_end=False, rules=rules)) is not None:
                ended = stop
                break
    except SimulatorUnavailable:
        return None
    return dialogue.model_copy(
        update={
            "hidden_need": persona.hidden_need.value,
            "simulator": kind.tag.model_copy(update={"kind": KIND}),
            "emotion_final": turns[-1].emotion if turns else dialogue.emotion_start,
            "stop_reason": ended,
            "error": None,
            "turns": tuple(turns),
        }
    )
