"""How much of a policy's score is left with other users: per shift, paired with the unshifted dialogues of the same personas and seeds.

A difference is the shifted emotion minus the unshifted one, so a drop is negative. The p-values of one policy's shifts are one family.

Do two appraisers put the same things in the same order? Rank correlations with intervals, scenarios or personas resampled whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring import sentient, statistics
from rlver.components.scoring.leaderboard import Standing, standing
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, holm, middle, over_spread, pearson, times_drawn
from rlver.components.scoring.units import Sampling

_CELLS = 2_000_000  # weights held at once; bounds memory, never the result
_WHOLE = Interval(-1.0, 1.0)


def over_dialogues(pairs: Mapping[str, Sequence[tuple[float, float]]], how: Sampling) -> Estimated | None:
    """Spearman's rho of (first, second) over all dialogues; keys are personas. None without an order on either side.

    Raises ValueError without a dialogue."""
    personas = sorted(name for name in pairs if pairs[name])
    if not personas:
        raise ValueError("there is no dialogue that both have appraised")
    whose, clusters = how.units.numbers(personas)
    rows = [(index, *pair) for index, name in zip(whose, personas, strict=True) for pair in pairs[name]]
    owner = np.array([row[0] for row in rows])
    first, second = (_classes(np.array([row[side] for row in rows])) for side in (1, 2))
    value = float(_weighted_rho(np.ones((1, len(rows))), first, second)[0])
    if math.isnan(value):
        return None
    drawn = np.concatenate([_weighted_rho(weights[:, owner], first, second) for weights in _draws(clusters, how, width=len(rows))])
    return Estimated(value, _interval(drawn, clusters), len(rows))


def over_policies(
    first: Mapping[str, Mapping[str, float]], second: Mapping[str, Mapping[str, float]], how: Sampling
) -> tuple[Estimated | None, Estimated | None]:
    """(Spearman's rho, Kendall's tau-b) of the policies' mean emotions. Both arguments: policy -> persona -> emotion.

    Only personas that both have of every policy count. Raises ValueError for fewer than two policies or no such persona.
    """
    policies = sorted(first)
    if len(policies) < 2 or policies != sorted(second):
        raise ValueError(f"an order needs the same two policies or more on both sides, got {', '.join(policies) or 'none'}")
    shared = sorted(set.intersection(*(set(side[policy]) for side in (first, second) for policy in policies)))
    if not shared:
        raise ValueError("no persona was appraised by both in dialogues with every policy; use the same personas")
    tables = [np.array([[side[policy][persona] for policy in policies] for persona in shared]) for side in (first, second)]
    whose, clusters = how.units.numbers(shared)
    whole = [_orders(table.mean(axis=0, keepdims=True)) for table in tables]
    drawn = [
        np.concatenate([_orders(weights[:, whose] @ table / len(shared)) for weights in _draws(clusters, how, width=len(shared))])
        for table in tables
    ]
    results = []
    for correlate in (_rho_of_orders, _tau_of_orders):
        value = float(correlate(*whole)[0])
        results.append(None if math.isnan(value) else Estimated(value, _interval(correlate(*drawn), clusters), len(policies)))
    return results[0], results[1]


def _draws(clusters: int, how: Sampling, width: int) -> list[np.ndarray]:
    """How often each of so many units is drawn, as many rows in all as samples are asked for."""
    random = np.random.default_rng(how.seed)
    rows = max(1, _CELLS // max(clusters, width))
    return [times_drawn(random, clusters, min(rows, how.samples - at)) for at in range(0, how.samples, rows)]


def _classes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each value, which of the different values it is (rising); and the same as a table value x class."""
    levels, which = np.unique(values, return_inverse=True)
    return which, np.eye(len(levels))[which]


def _weighted_rho(weights: np.ndarray, first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Spearman's rho where row b counts value i `weights[b, i]` times; NaN without an order."""
    ranks = []
    for which, table in (first, second):
        counts = weights @ table
        ranks.append((np.cumsum(counts, axis=1) - counts / 2)[:, which])
    return pearson(ranks[0], ranks[1], weights)


def _orders(means: np.ndarray) -> np.ndarray:
    """[b, i, j]: +1 where policy i stands above policy j in row b, -1 below, 0 equal."""
    signs: np.ndarray = np.sign(np.round(means[:, :, None] - means[:, None, :], 9))
    return signs


def _rho_of_orders(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mid-ranks are, but for a constant, half the sums of the signs."""
    return pearson(first.sum(axis=2), second.sum(axis=2))


def _tau_of_orders(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    size = np.sqrt((first**2).sum(axis=(1, 2)) * (second**2).sum(axis=(1, 2)))
    return over_spread((first * second).sum(axis=(1, 2)), size)


def _interval(drawn: np.ndarray, clusters: int) -> Interval:
    """Percentiles of the resamples that have an order; the whole range when fewer than half have one, and of units so few that resamples of them
    look certain (of two they cover the truth in 54% of the cases, of four in 89%)."""
    known = drawn[~np.isnan(drawn)]
    if clusters < _LEAST_DRAWN or 2 * len(known) < len(drawn):
        return _WHOLE
    return middle(known)


_LEAST_DRAWN = 5  # units
_DIFFERENCES = Interval(-100.0, 100.0)


@dataclass(frozen=True)
class Change:
    """Shifted minus unshifted in points of emotion, over the personas scored both times. `detectable`: the smallest true change that as
    many units would show in four of five reports (5%, two-sided); None for one."""

    difference: Estimated
    personas: int
    p_value: float  # two-sided, of "the shift changes nothing"
    p_holm: float  # adjusted over this policy's shifts
    detectable: float | None


@dataclass(frozen=True)
class ShiftRow:
    """One policy with one kind of user; `change` is None for the unshifted one."""

    shift: str
    score: Standing
    change: Change | None


def rows(policy: Mapping[str, Sequence[Dialogue]], unshifted: str, how: Sampling) -> list[ShiftRow]:
    """The rows of one policy, in the order of its shifts. `policy`: shift -> dialogues, of which one is `unshifted`.

    Raises ValueError when a shift has no scorable dialogue, or none with a persona that was scored unshifted.
    """
    own = {shift: sentient.by_persona(dialogues, sentient.final_emotion) for shift, dialogues in policy.items()}
    differences = {shift: statistics.paired_differences(values, own[unshifted]) for shift, values in own.items() if shift != unshifted}
    lonely = [shift for shift, of_personas in differences.items() if not of_personas]
    if lonely:
        raise ValueError(f"{lonely[0]}: no persona was scored both with and without the shift; hold both with the same personas")
    p_values = {shift: sign_flip_p(how.units.sums(of_personas), how.samples, how.seed) for shift, of_personas in differences.items()}
    adjusted = holm(p_values)
    return [
        ShiftRow(
            shift,
            standing(dialogues, shift, how),
            None if shift == unshifted else _change(differences[shift], p_values[shift], adjusted[shift], how),
        )
        for shift, dialogues in policy.items()
    ]


def _change(differences: Mapping[str, float], p_value: float, p_holm: float, how: Sampling) -> Change:
    detectable = statistics.detectable(how.units.paired_scores(differences)) if how.units.count(differences) > 1 else None
    return Change(how.paired_mean(differences, _DIFFERENCES), len(differences), p_value, p_holm, detectable)


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
    dialogues: Mapping[str, Estimated | None]  # policy -> Spearman's rho
    policies_rho: Estimated | None
    policies_tau: Estimated | None


def second_opinion(
    names: tuple[str, str],
    first: Mapping[str, Sequence[Dialogue]],
    second: Mapping[str, Mapping[str, int]],
    how: Sampling,
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
            policy: {persona: fmean([one[side] for one in of]) for persona, of in of_personas.items()}
            for policy, of_personas in pairs.items()
        }
        for side in (0, 1)
    ]
    rho, tau = over_policies(sides[0], sides[1], how) if len(pairs) > 1 else (None, None)
    every = {policy: [one for of in of_personas.values() for one in of] for policy, of_personas in pairs.items()}
    means = {policy: (fmean([one for one, _ in both]), fmean([other for _, other in both])) for policy, both in every.items()}
    dialogues = {policy: over_dialogues(of_personas, how) for policy, of_personas in pairs.items()}
    return SecondOpinion(*names, means, dialogues, rho, tau)


def _pairs(dialogues: Sequence[Dialogue], second: Mapping[str, int]) -> dict[str, list[tuple[float, float]]]:
    """(first, second) of every dialogue that both scored, by persona."""
    return by_cluster(
        (one.persona_id, (float(one.emotion_final), float(second[one.dialogue_id])))
        for one in dialogues
        if one.emotion_final is not None and one.dialogue_id in second
    )
