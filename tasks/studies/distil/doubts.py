"""Where an appraiser knows least, and what the LLM user says there: recordings to learn from next (active learning).

A dialogue is asked about as a whole, from its first reply on: what is felt about a reply rests on what was felt before, and only a whole
dialogue can be learned from.

What `rlver ask-unsure` does: the LLM user is asked about the dialogues that a distilled appraiser is least sure of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import SimulatorUnavailable
from rlver.components.domain.transcript import Dialogue, SimulatorTag, StopReason, Turn
from rlver.components.personas.schema import validate_file
from rlver.components.rollout.transcripts import summary
from rlver.components.settings.settings import load_settings, with_simulator
from rlver.components.users.distilled.features import known_from, moments_of
from rlver.components.users.distilled.folder import folder_of, read_folder
from rlver.components.users.distilled.model import Distilled, Listening, UnfamiliarUser
from rlver.components.users.llm.questions import LLMExchange
from rlver.components.users.llm.simulator import LLMSimulator
from rlver.tasks.runtime.assembly import simulator, user_connection
from rlver.tasks.studies.distil.command import recorded

KIND = "llm-appraiser"


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
    listening = Listening(model, known.need)
    moments = moments_of(known, [turn.user for turn in dialogue.turns], [turn.assistant for turn in dialogue.turns])
    try:
        every = [listening.judge(moment).sure for moment in moments]
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


async def felt_by(user: LLMSimulator, dialogue: Dialogue, persona: Persona, rules: EmotionRules) -> Dialogue:
    """The same words as this user feels them, up to where that user would have left. Raises SimulatorUnavailable and BudgetExceeded."""
    emotion, ended = dialogue.emotion_start, StopReason.GOODBYE
    turns, exchanges = list[Turn](), list[LLMExchange]()
    for turn in dialogue.turns:
        exchanges.append(LLMExchange(turn.user, turn.assistant))
        appraisal = await user.appraise_after(persona, exchanges, emotion, dialogue.seed)
        emotion = apply_change(emotion, appraisal.change)
        turns.append(turn.model_copy(update={"emotion": emotion, "appraisal": appraisal}))
        if (stop := stop_reason(emotion, len(turns), wants_to_end=False, rules=rules)) is not None:
            ended = stop
            break
    return dialogue.model_copy(
        update={
            "hidden_need": persona.hidden_need.value,
            "simulator": SimulatorTag(kind=KIND, difficulty=user.tag.difficulty, version=user.tag.version),
            "emotion_final": emotion,
            "stop_reason": ended,
            "error": None,
            "turns": tuple(turns),
        }
    )


def ask_unsure(
    transcripts: Sequence[Path], appraiser: str, replies: int, personas: Path, out: Path, variant: str | None, params: Path
) -> str:
    """Write what the LLM user feels about at most so many replies, of the least sure dialogues; one line about them and their cost."""
    model = read_folder(folder_of(appraiser))
    settings = load_settings(params, variant)
    settings = settings.model_copy(update={"simulator": settings.simulator.model_copy(update={"appraiser": None})})
    settings = with_simulator(settings, "llm", None)
    people = {persona.persona_id: persona for persona in validate_file(personas)}
    every = [dialogue for path in transcripts for dialogue in recorded(path)]
    chosen = list(within(doubts(model, [one for one in every if one.persona_id in people], people), replies))
    if not chosen:
        raise ValueError(
            f"no dialogue of a persona in {personas} has between 1 and {replies} replies; ask about more, or name other personas"
        )
    connection = user_connection(settings)
    user, rules = simulator(settings, endpoint=connection), settings.simulator.rules
    assert isinstance(user, LLMSimulator)

    async def asked() -> list[Dialogue | None]:
        async with connection or nullcontext():
            return list(await asyncio.gather(*(_felt(user, doubt, people[doubt.dialogue.persona_id], rules) for doubt in chosen)))

    dialogues = [one for one in asyncio.run(asked()) if one is not None]
    if not dialogues:
        raise ValueError(
            f"{settings.simulator.llm.appraiser.model} gave no usable answer on any of {len(chosen)} dialogues; try another model"
        )
    write_jsonl(out, [one.model_dump(mode="json") for one in dialogues])
    unknown = sum(one.persona_id not in people for one in every)
    remarks = [
        f"sure of the direction with probability {chosen[0].sure:.2f} to {chosen[-1].sure:.2f}",
        *([f"{len(chosen) - len(dialogues)} that the model gave no usable answer on are left out"] if len(dialogues) < len(chosen) else []),
        *([f"{unknown} of a persona that is not in {personas} were not considered"] if unknown else []),
        *([connection.line()] if connection else []),
    ]
    return "; ".join([f"{out}: {summary(dialogues, rules)}", *remarks])


async def _felt(user: LLMSimulator, doubt: Doubt, persona: Persona, rules: EmotionRules) -> Dialogue | None:
    """None where the model gave no usable answer."""
    try:
        return await felt_by(user, doubt.dialogue, persona, rules)
    except SimulatorUnavailable:
        return None
