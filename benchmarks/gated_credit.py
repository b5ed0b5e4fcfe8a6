"""What the format gate does to credit by turn: `python -m benchmarks.gated_credit [--groups 60]`, seconds on one core.

Dialogues of a supporter like the base with the scripted user, in groups of eight; every turn is malformed, and so silent, with some chance,
and a dialogue with such a turn is worth 0. Printed is the mean square of the advantages of all turns (what the variance of the gradient
grows with), once with the emotion as the potential of turns after the malformed one, once with those turns left out, as training has it.
"""

from __future__ import annotations

import argparse
import asyncio
from random import Random

import torch

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue, StopReason, Turn
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import Move, SupportMoment, mixed
from rlver.components.replay.reappraisal import replayed
from rlver.components.rollout.episode import Rollout
from rlver.components.training.advantages import turn_advantages
from rlver.components.training.dialogue_trainer import paid_before
from rlver.components.users.scripted.simulator import ScriptedSimulator

RULES, USER, SUPPORTER = EmotionRules(), ScriptedSimulator("vanilla"), mixed(0.36)
GROUP = 8
SILENCE = Move("malformed", "", "")


def talk(persona: Persona, chance: float, seed: int) -> Rollout:
    """One dialogue without its tokens; `seed` is the supporter's, the user is the same in all of a group."""
    own = Random(f"{seed}|{persona.persona_id}")

    def supporter(moment: SupportMoment, random: Random) -> Move:
        return SILENCE if own.random() < chance else SUPPORTER(moment, own)

    held = hold(persona, supporter, USER, RULES, 0, thinking=False)
    said = [Turn(user=user, assistant=move.reply) for user, move in zip(held.users, held.moves, strict=True)]

    async def felt() -> list[Turn]:
        return [turn async for turn in replayed(USER.session(persona, 0), RULES.start, said)]

    dialogue = Dialogue(
        dialogue_id="", persona_id=persona.persona_id, policy="", seed=0, simulator=USER.tag, emotion_start=RULES.start,
        emotion_final=held.emotion_final, stop_reason=StopReason.TURN_LIMIT, turns=tuple(asyncio.run(felt())),
    )  # fmt: skip
    broken = next((number for number, move in enumerate(held.moves) if move is SILENCE), None)
    return Rollout(dialogue, (), (), (), (), (), (), malformed_turn=broken, cut_off_turns=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=60)
    groups: int = parser.parse_args().groups
    personas, _ = compose_personas(load_library(), 7, groups, 8)
    print(f"{groups} groups of {GROUP}; mean square of advantages")
    print("malformed turns | malformed dialogues | potential goes on | turns left out | ratio")
    for chance in (0.0, 0.01, 0.03, 0.1):
        rollouts = [talk(persona, chance, seed) for persona in personas for seed in range(GROUP)]
        reward = torch.tensor([(one.dialogue.emotion_final or 0) / 100 if one.well_formed else 0.0 for one in rollouts])
        spoken = ~paid_before(rollouts, format_gate=False, cut_off_penalty=0.0).isnan()
        before, after = (
            float(turn_advantages(reward, paid_before(rollouts, gate, 0.0), GROUP, "none")[spoken].square().mean())
            for gate in (False, True)
        )
        malformed = sum(not one.well_formed for one in rollouts) / len(rollouts)
        print(f"{chance:.0%} | {malformed:.0%} | {before:.4f} | {after:.4f} | {after / before:.2f}")


if __name__ == "__main__":
    main()
