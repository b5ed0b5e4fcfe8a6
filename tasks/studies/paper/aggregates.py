"""One number of a way of training, over all its seeds and scenarios: the interquartile mean, as rliable has it (Agarwal et al. 2021).

It is the mean of the middle half of the table of seeds by scenarios, so a few scenarios where everything or nothing helps move it little.

The strata of the bootstrap are the scenarios: within each its personas are drawn with replacement, so every scenario stays with its weight.
rliable draws the runs of every task by themselves, since there each run is of one task. Here one training talks with every scenario, so
a seed is drawn whole: its luck is the same everywhere. The interval is of these scenarios, and no verdict rests on it (contrasts.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import trim_mean

from rlver.components.scoring.crossed import Emotions
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, middle, of_equals, times_drawn

_TRIMMED = 0.25  # at either end
_EMOTIONS = Interval(0.0, 100.0)


def interquartile_mean(by_seed: Mapping[int, Emotions], scenario_of: Mapping[str, str], samples: int, seed: int) -> Estimated | None:
    """With its 95% interval; `n` counts seeds. Only personas that all seeds were scored on count; None without any, or of one seed.

    A persona that `scenario_of` lacks is a scenario of its own. Draws that are all alike get the interval of so many equal seeds.
    """
    shared = sorted(set.intersection(*(set(emotions) for emotions in by_seed.values()))) if len(by_seed) > 1 else []
    if not shared:
        return None
    strata = by_cluster((scenario_of.get(persona, persona), number) for number, persona in enumerate(shared))
    values = np.array([[math.fsum(of[persona]) / len(of[persona]) for persona in shared] for of in by_seed.values()])
    table = np.stack([values[:, columns].mean(axis=1) for _, columns in sorted(strata.items())], axis=1)  # (seeds, scenarios)
    value = float(trim_mean(table, _TRIMMED, axis=None))
    interval = middle(_draws(values, [columns for _, columns in sorted(strata.items())], samples, seed))
    if interval.low == interval.high:
        interval = of_equals(value, len(by_seed), _EMOTIONS)
    return Estimated(value, interval, len(by_seed))


def _draws(values: np.ndarray, strata: list[list[int]], samples: int, seed: int) -> np.ndarray:
    """The interquartile mean of every draw from (seeds, personas)."""
    random, seeds = np.random.default_rng(seed), len(values)
    cells = [times_drawn(random, len(columns), samples) @ values[:, columns].T / len(columns) for columns in strata]
    drawn = random.integers(seeds, size=(samples, seeds, 1))
    tables = np.take_along_axis(np.stack(cells, axis=2), drawn, axis=1)  # (samples, seeds, scenarios)
    return np.asarray(trim_mean(tables.reshape(samples, -1), _TRIMMED, axis=1))
