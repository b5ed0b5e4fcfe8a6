"""How firmly recordings rank their own policy models: `python -m benchmarks.recorded_ranking RECORDINGS...`.

Spearman's rho between the recorded means of two random halves of the personas, and between those of resampled personas and of all. It
says how far other personas would move the ranking. It is no ceiling for an appraiser of these same dialogues.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from rlver.tasks.studies.distil.recordings import recorded

DRAWS, SEED = 2000, 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded_ranking", description=__doc__)
    parser.add_argument("recordings", type=Path, nargs="+", help="one file a policy model, with the same personas")
    dialogues = [dialogue for path in parser.parse_args().recordings for dialogue in recorded(path)]
    finals = {(one.policy, one.persona_id): one.emotion_final for one in dialogues}
    policies, personas = sorted({policy for policy, _ in finals}), sorted({persona for _, persona in finals})
    table = np.array([[finals[policy, persona] for persona in personas] for policy in policies], dtype=float)
    random, half, every = np.random.default_rng(SEED), len(personas) // 2, table.mean(axis=1)

    def rho(one: np.ndarray, other: np.ndarray) -> float:
        return float(spearmanr(one, other).statistic)

    shuffled = [random.permutation(len(personas)) for _ in range(DRAWS)]
    halves = [rho(table[:, order[:half]].mean(axis=1), table[:, order[half:]].mean(axis=1)) for order in shuffled]
    again = [rho(table[:, random.integers(0, len(personas), len(personas))].mean(axis=1), every) for _ in range(DRAWS)]
    for name, values in (("two halves of the personas", halves), ("resampled personas and all", again)):
        low, high = np.quantile(values, [0.025, 0.975])
        print(f"{name}: Spearman {np.mean(values):.2f} on average, 95% of {DRAWS} draws in [{low:.2f}, {high:.2f}]", end="; ")
        print(f"{np.mean(np.array(values) >= 0.95):.0%} of them at least 0.95")


if __name__ == "__main__":
    main()
