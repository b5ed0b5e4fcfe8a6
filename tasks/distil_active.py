"""What `rlver ask-unsure` does: the LLM user is asked about the dialogues that a distilled appraiser is least sure of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from components.dialogue.transcript import Dialogue
from components.distillation.doubts import Doubt, doubts, felt_by, within
from components.files import write_jsonl
from components.personas.persona import Persona
from components.personas.schema import validate_file
from components.settings import load_settings
from components.simulator.distilled.folder import folder_of, read_folder
from components.simulator.emotion import EmotionRules
from components.simulator.llm.simulator import LLMSimulator
from components.simulator.protocol import SimulatorUnavailable
from tasks.dialogue_commands import rules_of, summary, with_simulator
from tasks.distil_commands import recorded
from tasks.stages.assembly import simulator, user_connection


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
    user, rules = simulator(settings, endpoint=connection), rules_of(settings)
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
