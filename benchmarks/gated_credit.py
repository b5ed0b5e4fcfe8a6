"""What the format gate does to credit by turn: `python -m benchmarks.gated_credit [--groups 60] [--seeds 7 8 9]`, a minute on one core.

Dialogues of a supporter like the base with the scripted user, in groups of eight; every turn is malformed, and so silent, with some chance,
and a dialogue with such a turn is worth 0. Printed is the mean square of the advantages of all turns (what the variance of the gradient
grows with), once with the emotion as the potential of turns after the malformed one, once with those turns left out, as training has it.
A seed has personas and supporters of its own. The interval of the ratio resamples the groups of all seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from random import Random

import numpy as np
import torch

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import Move, SupportMoment, mixed
from rlver.components.rollout.episode import Rollout
from rlver.components.training.advantages import turn_advantages
from rlver.components.training.dialogue_trainer import paid_before
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.tasks.studies.audit import reference

RULES, USER, SUPPORTER = EmotionRules(), ScriptedSimulator("vanilla"), mixed(0.36)
GROUP = 8
SILENCE = Move("malformed", "", "")


def talk(persona: Persona, chance: float, seed: int) -> Rollout:
    """One dialogue without its tokens; `seed` is the supporter's, the user is the same in all of a group."""
    own = Random(f"{seed}|{persona.persona_id}")

    def supporter(moment: SupportMoment, random: Random) -> Move:
        return SILENCE if own.random() < chance else SUPPORTER(moment, own)

    dialogue = reference.talk(persona, supporter, USER, RULES, 0, "")
    broken = next((number for number, turn in enumerate(dialogue.turns) if not turn.assistant), None)
    return Rollout(dialogue, (), (), (), (), (), (), malformed_turn=broken, cut_off_turns=())


def squares(personas: Sequence[Persona], chance: float, seed: int) -> tuple[np.ndarray, float]:
    """(G, 3) of each group the sum of squared advantages with the potential going on and with turns left out, and its number of turns;
    and the share of malformed dialogues."""
    rollouts = [talk(persona, chance, seed * GROUP + number) for persona in personas for number in range(GROUP)]
    reward = torch.tensor([(one.dialogue.emotion_final or 0) / 100 if one.well_formed else 0.0 for one in rollouts])
    spoken_DK = ~paid_before(rollouts, format_gate=False, cut_off_penalty=0.0).isnan()
    sums = [
        torch.where(spoken_DK, turn_advantages(reward, paid_before(rollouts, gate, 0.0), GROUP, "none"), 0.0).square().sum(dim=1)
        for gate in (False, True)
    ]
    by_group = torch.stack([*sums, spoken_DK.sum(dim=1)], dim=1).reshape(len(personas), GROUP, 3).sum(dim=1)
    return by_group.double().numpy(), sum(not one.well_formed for one in rollouts) / len(rollouts)


def ratio(sums_G3: np.ndarray) -> float:
    """Turns left out over potential going on; the number of turns is the same."""
    return float(sums_G3[:, 1].sum() / sums_G3[:, 0].sum())


def interval(sums_G3: np.ndarray, samples: int = 2000) -> tuple[float, float]:
    """95% of `ratio` over groups drawn with replacement."""
    drawn = np.random.default_rng(0).integers(len(sums_G3), size=(samples, len(sums_G3)))
    low, high = np.quantile(sums_G3[drawn, 1].sum(axis=1) / sums_G3[drawn, 0].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=60, help="of each seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    given = parser.parse_args()
    people = {seed: compose_personas(load_library(), seed, given.groups, 8)[0] for seed in given.seeds}
    print(f"{given.groups} groups of {GROUP} for each of the seeds {' '.join(map(str, given.seeds))}; mean square of advantages")
    print("malformed turns | malformed dialogues | potential goes on | turns left out | ratio, 95% | of each seed")
    for chance in (0.0, 0.01, 0.03, 0.1):
        found = [squares(personas, chance, seed) for seed, personas in people.items()]
        sums = np.concatenate([one for one, _ in found])
        before, after = (sums[:, column].sum() / sums[:, 2].sum() for column in (0, 1))
        low, high = interval(sums)
        each = " ".join(f"{ratio(one):.2f}" for one, _ in found)
        malformed = float(np.mean([share for _, share in found]))
        print(
            f"{chance:.0%} | {malformed:.0%} | {before:.4f} | {after:.4f} | {ratio(sums):.2f} [{low:.2f}, {high:.2f}] | {each}", flush=True
        )


if __name__ == "__main__":
    main()
