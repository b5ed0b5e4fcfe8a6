"""What the audit measures on honest references and on cheats: `python -m benchmarks.audit_references [TRANSCRIPTS…]`.

The limits in params.yaml were set from this table, with recorded SAGE dialogues (`rlver import sage`) as the transcripts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment, mixed, need_aware, random_strategy
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import load_settings
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.tasks.studies.audit.cheats import CHEATS, Cheat, DialogueSoFar
from rlver.tasks.studies.audit.measures import MEASURES, Measure, MeasureKind
from rlver.tasks.studies.audit.reference import Meeting, talk

RULES = EmotionRules()
SUPPORTERS: dict[str, Supporter] = {
    "told the need": need_aware,
    "reads the cues, every turn": mixed(1.0),
    "reads the cues in 36% of turns": mixed(0.36),
    "any act, uniformly": random_strategy,
}


def met(personas: Sequence[Persona], seed: int) -> list[Meeting]:
    """One dialogue with each persona."""
    return [Meeting(persona, seed, persona.persona_id) for persona in personas]


def talks(supporter: Supporter, personas: Sequence[Persona], difficulty: str, seed: int = 0) -> list[Dialogue]:
    """One dialogue with each persona."""
    user = ScriptedSimulator(difficulty)
    return [talk(one.persona, supporter, user, RULES, one.seed, one.dialogue_id) for one in met(personas, seed)]


def cheating(cheat: Cheat) -> Supporter:
    def supporter(moment: SupportMoment, random: Random) -> Move:
        return Move("cheating", "", cheat(DialogueSoFar(moment.user_messages, [move.reply for move in moment.moves]), random))

    return supporter


def measured(measure: Measure, dialogues: Sequence[Dialogue], run_words: int) -> float:
    """The mean of a measure; NaN where there is nothing to measure."""
    values = [value for of in measure.of(dialogues, run_words).values() for value in of]
    mean = sum(values) / len(values) if values else math.nan
    return math.exp(mean) if measure.kind is MeasureKind.RATIO else mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("transcripts", type=Path, nargs="*")
    parser.add_argument("--difficulty", default="vanilla")
    options = parser.parse_args()
    run_words = load_settings(Path("params.yaml")).audit.run_words
    _, test = compose_personas(load_library(), 7, 96, 104)

    def show(name: str, dialogues: Sequence[Dialogue]) -> None:
        finals = [dialogue.emotion_final for dialogue in dialogues if dialogue.emotion_final is not None]
        values = (measured(measure, dialogues, run_words) for measure in MEASURES)
        print(f"{name[:34]:35}{sum(finals) / len(finals):6.1f}", *(f"{value:8.3f}" for value in values), flush=True)

    print(f"{'':35}{'final':>6}", *(f"{measure.name[:8]:>8}" for measure in MEASURES))
    for name, supporter in SUPPORTERS.items():
        show(name, talks(supporter, test, options.difficulty))
    for path in options.transcripts:
        show(path.stem, load_transcripts(path))
    for name, cheat in CHEATS.items():
        show(name, talks(cheating(cheat), test[:48], options.difficulty))


if __name__ == "__main__":
    main()
