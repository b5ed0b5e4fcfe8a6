"""How much of a policy's score is left with other users: per shift, paired with the unshifted dialogues of the same personas and seeds.

A difference is the shifted emotion minus the unshifted one, so a drop is negative. The p-values of one policy's shifts are one family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

import numpy as np

from components.dialogue.transcript import Dialogue
from components.evaluation import sentient, statistics
from components.evaluation.rank_agreement import Agreement, over_dialogues, over_policies
from components.evaluation.standings import Standing, standing
from components.evaluation.statistics import Estimated, Interval, holm

_DIFFERENCES = Interval(-100.0, 100.0)


@dataclass(frozen=True)
class Change:
    """Shifted minus unshifted in points of emotion, over the personas scored both times. `detectable`: the smallest true change that as
    many personas would show in four of five reports (5%, two-sided)."""

    difference: Estimated
    p_value: float  # two-sided, of "the shift changes nothing"
    p_holm: float  # adjusted over this policy's shifts
    detectable: float


@dataclass(frozen=True)
class Row:
    """One policy with one kind of user; `change` is None for the unshifted one."""

    shift: str
    score: Standing
    change: Change | None


def rows(policy: Mapping[str, Sequence[Dialogue]], unshifted: str, samples: int, seed: int) -> list[Row]:
    """The rows of one policy, in the order of its shifts. `policy`: shift -> dialogues, of which one is `unshifted`.

    Raises ValueError when a shift has no scorable dialogue, or none with a persona that was scored unshifted.
    """
    own = {shift: sentient.by_persona(dialogues, sentient.final_emotion) for shift, dialogues in policy.items()}
    differences = {shift: statistics.paired_differences(values, own[unshifted]) for shift, values in own.items() if shift != unshifted}
    lonely = [shift for shift, of_personas in differences.items() if not of_personas]
    if lonely:
        raise ValueError(f"{lonely[0]}: no persona was scored both with and without the shift")
    p_values = {shift: sign_flip_p(list(of_personas.values()), samples, seed) for shift, of_personas in differences.items()}
    adjusted = holm(p_values)
    return [
        Row(
            shift,
            standing(dialogues, shift, samples, seed),
            None if shift == unshifted else _change(differences[shift], p_values[shift], adjusted[shift], samples, seed),
        )
        for shift, dialogues in policy.items()
    ]


def _change(differences: Mapping[str, float], p_value: float, p_holm: float, samples: int, seed: int) -> Change:
    spread = stdev(differences.values()) if len(differences) > 1 else math.inf
    return Change(
        statistics.paired_mean(differences, samples, seed, _DIFFERENCES),
        p_value,
        p_holm,
        statistics.minimum_detectable_difference(spread, len(differences), freedom=max(1, len(differences) - 1)),
    )


def sign_flip_p(differences: Sequence[float], samples: int, seed: int) -> float:
    """Two-sided p of "each difference is as likely with the other sign" (Fisher's randomisation test, drawn `samples` times)."""
    values = np.array(differences)
    random = np.random.default_rng(seed)
    flipped = np.abs(np.array([random.choice((-1.0, 1.0), size=len(values)) @ values for _ in range(samples)]))
    return (1 + int(np.sum(flipped >= abs(values.sum()) - 1e-9))) / (1 + samples)


@dataclass(frozen=True)
class SecondOpinion:
    """The same dialogues as another appraiser sees them. `means`: policy -> mean final emotion of (first, second).

    Over policies there is an order from two policies on; of two it is either the same or the reverse.
    """

    first: str
    second: str
    means: Mapping[str, tuple[float, float]]
    dialogues: Mapping[str, Agreement | None]  # policy -> Spearman's rho
    policies_rho: Agreement | None
    policies_tau: Agreement | None


def second_opinion(
    names: tuple[str, str],
    first: Mapping[str, Sequence[Dialogue]],
    second: Mapping[str, Mapping[str, int]],
    samples: int,
    seed: int,
) -> SecondOpinion:
    """Agreement of two appraisers. `first`: policy -> dialogues; `second`: policy -> dialogue_id -> final emotion.

    Raises ValueError when they share no dialogue of a policy.
    """
    pairs = {policy: _pairs(dialogues, second[policy]) for policy, dialogues in first.items()}
    for policy, of_personas in pairs.items():
        if not of_personas:
            raise ValueError(f"{names[1]}: it has none of the dialogues with {policy}; appraise the transcripts of this report")
    sides: list[dict[str, dict[str, float]]] = [
        {
            policy: {persona: _mean([one[side] for one in of]) for persona, of in of_personas.items()}
            for policy, of_personas in pairs.items()
        }
        for side in (0, 1)
    ]
    rho, tau = over_policies(sides[0], sides[1], samples, seed) if len(pairs) > 1 else (None, None)
    means = {
        policy: (_mean([one[0] for of in of_personas.values() for one in of]), _mean([one[1] for of in of_personas.values() for one in of]))
        for policy, of_personas in pairs.items()
    }
    dialogues = {policy: over_dialogues(of_personas, samples, seed) for policy, of_personas in pairs.items()}
    return SecondOpinion(*names, means, dialogues, rho, tau)


def _pairs(dialogues: Sequence[Dialogue], second: Mapping[str, int]) -> dict[str, list[tuple[float, float]]]:
    """(first, second) of every dialogue that both scored, by persona."""
    found: dict[str, list[tuple[float, float]]] = {}
    for dialogue in dialogues:
        if dialogue.emotion_final is not None and dialogue.dialogue_id in second:
            found.setdefault(dialogue.persona_id, []).append((float(dialogue.emotion_final), float(second[dialogue.dialogue_id])))
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
