"""How far appraisals agree with recorded ones: per turn, per dialogue and per policy model, with intervals by resampling personas whole.

A ranking is of models, which are a sample too: other personas would move it a little, other models much more. So it has a second interval.

What an appraiser must beat: the mean, the length of the reply alone, the hidden need alone. The fourth is its own first step, ridge
regression on the n-grams of the reply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import kendalltau, spearmanr

from rlver.components.domain.emotion import EmotionRules, emotions, stop_reason
from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring.statistics import Interval, middle, pearson_of_sums, times_drawn
from rlver.components.users.distilled.features import NAMES
from rlver.tasks.studies.distil.examples import Examples, Numbers

_LEAST_PERSONAS = 2  # for a figure
_LEAST_DRAWN = 5  # personas for an interval: resamples of two cover the truth in 46% of the cases, of four in 77%, and of one look certain


@dataclass(frozen=True)
class Agreed:
    """A figure with its 95% interval; None where it is not defined, as a correlation with a constant or figures of one persona."""

    value: float | None
    ci95: Interval | None
    n: int


class PairedAppraisals(NamedTuple):
    """Numbers that should agree, and the persona of each."""

    said: Numbers
    recorded: Numbers
    persona: NDArray[np.int64]


def free_run(dialogue: Dialogue, changes: Sequence[int], rules: EmotionRules) -> int:
    """The final emotion if these changes had decided: emotion and stop follow from them alone. A recording that ends first, ends it."""
    emotion = dialogue.emotion_start
    for turn, emotion in enumerate(emotions(dialogue.emotion_start, changes), start=1):
        if stop_reason(emotion, turn, wants_to_end=False, rules=rules) is not None:
            break
    return emotion


def correlation(paired: PairedAppraisals, samples: int, seed: int) -> Agreed:
    """Pearson's r."""
    x, y = paired.said, paired.recorded
    return _of_sums(paired, np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y]), pearson_of_sums, samples, seed)


def mean_error(paired: PairedAppraisals, samples: int, seed: int) -> Agreed:
    """Mean absolute difference."""
    return _mean(paired, np.abs(paired.said - paired.recorded), samples, seed)


def sign_accuracy(paired: PairedAppraisals, samples: int, seed: int) -> Agreed:
    """The share of changes with the recorded sign, among those recorded that have one."""
    kept = paired.recorded != 0
    of = PairedAppraisals(*(column[kept] for column in paired))
    return _mean(of, np.sign(of.said) == np.sign(of.recorded), samples, seed)


def direction_agreement(paired: PairedAppraisals, dialogue: NDArray[np.int64], samples: int, seed: int) -> Agreed:
    """Of two replies in a row that were felt differently: the share in which the better one is said to be the better one."""
    follows = dialogue[1:] == dialogue[:-1]
    changes = PairedAppraisals(np.diff(paired.said), np.diff(paired.recorded), paired.persona[1:])
    return sign_accuracy(PairedAppraisals(*(column[follows] for column in changes)), samples, seed)


def ranking(paired: PairedAppraisals, policy: NDArray[np.int64], samples: int, seed: int) -> dict[str, Agreed]:
    """Spearman's rho and Kendall's tau between the policy models' means, said and recorded; `_models`: with the interval over models."""
    policies, personas = np.unique(policy), np.unique(paired.persona)
    nothing = Agreed(None, None, len(policies))
    if len(policies) < 3 or len(personas) < _LEAST_PERSONAS:
        return dict.fromkeys(("spearman", "spearman_models", "kendall", "kendall_models"), nothing)

    def sums(values: Numbers) -> Numbers:
        table = np.zeros((len(personas), len(policies)))
        np.add.at(table, (np.searchsorted(personas, paired.persona), np.searchsorted(policies, policy)), values)
        return table

    count, said, recorded = sums(np.ones(len(policy))), sums(paired.said), sums(paired.recorded)
    drawn = np.vstack([np.ones(len(personas)), times_drawn(np.random.default_rng(seed), len(personas), min(samples, 1000))])
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs = list(zip(drawn @ said / (drawn @ count), drawn @ recorded / (drawn @ count), strict=True))
    found = {}
    for name, measure in (("spearman", spearmanr), ("kendall", kendalltau)):
        values = np.array([measure(one, other).statistic for one, other in pairs])
        found[name] = _agreed(values, len(policies), len(personas))
        found[f"{name}_models"] = _jackknife(*pairs[0], measure)
    return found


def _jackknife(one: Numbers, other: Numbers, measure: Callable[[Numbers, Numbers], Any]) -> Agreed:
    """A measure of scipy over models with Student's interval from leaving out each model in turn (Tukey 1958), cut at -1 and 1.

    None as its interval where a measure is not defined without one of them, and where leaving out changes nothing: too few models, or a
    perfect ranking, would look certain.
    """
    value, n = float(measure(one, other).statistic), len(one)
    if not np.isfinite(value):
        return Agreed(None, None, n)
    without = np.full(n, np.nan)
    if n > 3:
        without = np.array([measure(np.delete(one, model), np.delete(other, model)).statistic for model in range(n)])
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt((n - 1) * float(np.var(without)))
    return Agreed(value, Interval(max(-1.0, value - half), min(1.0, value + half)) if half > 1e-9 else None, n)


def _mean(paired: PairedAppraisals, values: NDArray[Any], samples: int, seed: int) -> Agreed:
    return _of_sums(
        paired, np.column_stack([np.ones(len(values)), values]), lambda sums: np.asarray(sums[:, 1] / sums[:, 0]), samples, seed
    )


def _of_sums(paired: PairedAppraisals, per_row: Numbers, figure: Callable[[Numbers], Numbers], samples: int, seed: int) -> Agreed:
    """A figure that follows from sums over rows, here and in `samples` draws of whole personas."""
    personas = np.unique(paired.persona)
    if len(personas) < _LEAST_PERSONAS:
        return Agreed(None, None, len(per_row))
    sums = np.zeros((len(personas), per_row.shape[1]))
    np.add.at(sums, np.searchsorted(personas, paired.persona), per_row)
    drawn = np.vstack([np.ones(len(personas)), times_drawn(np.random.default_rng(seed), len(personas), samples)])
    with np.errstate(invalid="ignore", divide="ignore"):
        return _agreed(figure(drawn @ sums), len(per_row), len(personas))


def _agreed(values: Numbers, n: int, personas: int) -> Agreed:
    """The first value is the figure, the others are those of the draws."""
    if not np.isfinite(values[0]):
        return Agreed(None, None, n)
    draws = values[1:][np.isfinite(values[1:])]
    return Agreed(float(values[0]), middle(draws) if len(draws) and personas >= _LEAST_DRAWN else None, n)


def baselines(examples: Examples, learned: NDArray[np.int64], scored: NDArray[np.int64]) -> dict[str, Numbers]:
    """By name, (scored): expected changes, from the rows `learned` alone."""
    change, need, overall = examples.change[learned], examples.need, float(examples.change[learned].mean())
    length = examples.measured[:, NAMES.index("length")]
    slope, constant = np.polyfit(length[learned], change, 1) if np.ptp(length[learned]) else (0.0, overall)
    of_need = {one: float(change[need[learned] == one].mean()) for one in set(need[learned].tolist())}
    return {
        "mean": np.full(len(scored), overall),
        "length": slope * length[scored] + constant,
        "need": np.array([of_need.get(one, overall) for one in need[scored].tolist()]),
    }
