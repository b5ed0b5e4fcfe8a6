"""Dialogues for the audit: cheats, supporters and the recorded base, with the scripted user or with one that is easily gamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.files import read_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator, UserSession, Utterance
from rlver.components.domain.transcript import Appraisal, Dialogue, SimulatorTag, StopReason, Turn
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import load_settings
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.tasks.studies.audit.audit import audit
from rlver.tasks.studies.audit.cheats import GOOD, Cheat, DialogueSoFar
from rlver.tasks.studies.audit.opinions import other_difficulty
from rlver.tasks.studies.audit.reference import matched

ROOT = Path(__file__).parents[4]
PARAMETERS = load_settings(ROOT / "params.yaml").audit
VANILLA = ScriptedSimulator("vanilla")
RULES = EmotionRules()
SAMPLES, SEED = 400, 7


@cache
def people() -> tuple[Persona, ...]:
    """72 test personas: with fewer, chance leaves some limits open."""
    return tuple(compose_personas(load_library(), seed=7, train=96, test=104)[1][:72])


@dataclass(frozen=True)
class GullibleUser:
    """Is delighted by a few phrases, whatever it needs, and disappointed by everything else: a simulator that can be gamed."""

    tag = SimulatorTag(kind="gullible", difficulty="challenging", version="1")

    def session(self, persona: Persona, seed: int) -> GullibleSession:
        return GullibleSession(VANILLA.session(persona, seed))


@dataclass(frozen=True)
class GullibleSession:
    speaker: UserSession

    async def open(self) -> Utterance:
        return await self.speaker.open()

    async def appraise(self, reply: str) -> Appraisal:
        likes = any(phrase in reply for phrase in GOOD)
        return (await self.speaker.appraise(reply)).model_copy(update={"change": 8 if likes else -4})

    async def speak(self, emotion: int) -> Utterance:
        return await self.speaker.speak(emotion)


def cheating(cheat: Cheat) -> Supporter:
    def supporter(moment: SupportMoment, random: Random) -> Move:
        return Move("cheating", "", cheat(DialogueSoFar(moment.user_messages, [move.reply for move in moment.moves]), random))

    return supporter


def mixture(share: float, of: Supporter, instead_of: Supporter) -> Supporter:
    """The one in `share` of the turns, the other in the rest."""
    return lambda moment, random: (of if random.random() < share else instead_of)(moment, random)


def talks(supporter: Supporter, simulator: Simulator = VANILLA, personas: Sequence[Persona] | None = None, seed: int = 0) -> list[Dialogue]:
    """One dialogue with each persona."""
    return [_talk(supporter, simulator, persona, RULES, seed) for persona in (people() if personas is None else personas)]


def _talk(supporter: Supporter, simulator: Simulator, persona: Persona, rules: EmotionRules, seed: int) -> Dialogue:
    held = hold(persona, supporter, simulator, rules, seed, thinking=False)
    return Dialogue(
        dialogue_id=persona.persona_id,
        persona_id=persona.persona_id,
        hidden_need=str(persona.hidden_need),
        policy="p",
        seed=seed,
        simulator=simulator.tag,
        emotion_start=rules.start,
        emotion_final=held.emotion_final,
        stop_reason=StopReason.TURN_LIMIT,
        turns=tuple(Turn(user=user, assistant=move.reply) for user, move in zip(held.users, held.moves, strict=True)),
    )


@cache
def recorded_base() -> tuple[Dialogue, ...]:
    """What the true base of a default run said to 128 train personas."""
    personas = {persona.persona_id: persona for persona in compose_personas(load_library(), seed=7, train=500, test=100)[0]}
    dialogues = []
    for _, row in read_jsonl(ROOT / "tests" / "tasks" / "studies" / "calibration" / "base_replies.jsonl"):
        rules = EmotionRules(max_turns=len(row["replies"]))
        dialogues.append(_talk(_reading(row["replies"]), VANILLA, personas[row["persona_id"]], rules, row["seed"]))
    return tuple(dialogues)


def _reading(replies: Sequence[str]) -> Supporter:
    return lambda moment, random: Move("recorded", "", replies[len(moment.moves)])


def outcomes(dialogues: Sequence[Dialogue], base: Sequence[Dialogue] | None = None) -> Mapping[str, str]:
    """The outcome of every check of dialogues with the thresholds of params.yaml."""
    personas = {persona.persona_id: persona for persona in people()}
    second = other_difficulty(dialogues, personas, RULES)
    found = audit(dialogues, base, None, {}, second, matched(dialogues, personas, VANILLA, RULES), PARAMETERS, Sampling(SAMPLES, SEED))
    return {check["name"]: check["outcome"] for check in found["checks"]}
