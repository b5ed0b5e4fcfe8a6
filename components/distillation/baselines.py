"""What an appraiser must beat: the mean, the length of the reply alone, the hidden need alone. (The fourth is its own first step, ridge
regression on the n-grams of the reply.)"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from components.distillation.examples import Examples
from components.simulator.distilled.measures import NAMES

BASELINES = ("mean", "length", "need")


def baseline(name: str, examples: Examples, learned: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.float64]:
    """(scored): expected changes, from the rows `learned` alone."""
    change = examples.change[learned]
    if name == "need":
        need, overall = examples.need, float(change.mean())
        means = {one: float(change[need[learned] == one].mean()) for one in set(need[learned].tolist())}
        return np.array([means.get(one, overall) for one in need[scored].tolist()])
    if name == "length":
        length = examples.measured[:, NAMES.index("length")]
        slope, constant = np.polyfit(length[learned], change, 1)
        return np.asarray(slope * length[scored] + constant)
    return np.full(len(scored), float(change.mean()))
