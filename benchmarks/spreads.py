"""How final emotions spread between dialogues, personas and scenarios: `python -m benchmarks.spreads TRANSCRIPTS TRANSCRIPTS …`.

Of two or more policies that talked with the same personas several times each: the standard deviation between dialogues of a policy with a
persona, and that of what a persona makes of one policy and not of another, with the share of its variance that belongs to the scenario. All
by analysis of variance, means over all pairs of policies; a negative estimate counts as 0. Give one policy of every way of training: two
seeds of one way differ only by what a training makes of a persona. `benchmarks.verdicts` simulates with these two.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.crossed import Emotions
from rlver.components.scoring.sentient import by_persona, final_emotion
from rlver.components.scoring.units import Units
from rlver.tasks.runtime.people import known_personas


class Spreads(NamedTuple):
    """Standard deviations in points. `at_most` is nearly the upper end of the one-sided 95% interval of `persona`: values are taken as
    normal, their noise as known and personas as independent."""

    dialogue: float
    persona: float
    at_most: float
    icc: float | None  # share of the variance of `persona` that is between scenarios; None where there is one, or each persona has its own


def spreads(policies: Sequence[Emotions], scenario_of: Mapping[str, str]) -> Spreads:
    """Of two or more policies; personas with one dialogue in any of them do not count. Raises ValueError where fewer than two are left."""
    met = set.intersection(*map(set, policies)) if policies else set()
    personas = sorted(who for who in met if all(len(policy[who]) > 1 for policy in policies))
    if len(policies) < 2 or len(personas) < 2:
        raise ValueError("this takes two policies that talked with the same personas, each more than once")
    within = [np.array([np.var(policy[who], ddof=1) for who in personas]) for policy in policies]
    means = [np.array([np.mean(policy[who]) for who in personas]) for policy in policies]
    noise = [variances / [len(policy[who]) for who in personas] for variances, policy in zip(within, policies, strict=True)]
    whose = np.unique([scenario_of.get(who, who) for who in personas], return_inverse=True)[1]
    pairs = [
        _of_difference(means[one] - means[other], float(np.mean(noise[one] + noise[other])), whose)
        for one, other in combinations(range(len(policies)), 2)
    ]
    persona, at_most, scenario = map(float, np.mean(pairs, axis=0))
    icc = None if math.isnan(scenario) else min(1.0, max(0.0, scenario) / persona) if persona > 0 else 0.0
    return Spreads(math.sqrt(float(np.mean(within))), math.sqrt(max(0.0, persona)), math.sqrt(max(0.0, at_most)), icc)


def _of_difference(values: np.ndarray, noise: float, whose: np.ndarray) -> tuple[float, float, float]:
    """(variance of `values` beyond `noise`, its upper end, its part between scenarios or NaN); `values` and `whose` are by persona."""
    sizes, freedom, total = np.bincount(whose), len(values) - 1, float(np.var(values, ddof=1))
    at_most = total * freedom / float(chi2.ppf(0.05, freedom)) - noise
    if len(sizes) in (1, len(values)):
        return total - noise, at_most, math.nan
    means = np.bincount(whose, weights=values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (len(sizes) - 1)
    inside = float(((values - means[whose]) ** 2).sum()) / (len(values) - len(sizes))
    size = (len(values) - float((sizes**2).sum()) / len(values)) / (len(sizes) - 1)  # of a scenario, where they differ in size
    scenario = (between - inside) / size
    return inside + scenario - noise, at_most, scenario


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("transcripts", type=Path, nargs="+", help="two or more files, a policy each")
    parser.add_argument("--personas", type=Path, help="file of the personas they talked with (default: the project's test personas)")
    args = parser.parse_args()
    policies = [by_persona(load_transcripts(path), final_emotion) for path in args.transcripts]
    found = spreads(policies, Units.of(known_personas(args.personas)).scenario_of)
    print(f"between dialogues {found.dialogue:.1f} points")
    by_scenario = "" if found.icc is None else f", of its variance {found.icc:.0%} by scenario"
    print(f"of what a persona makes of a difference {found.persona:.1f} points, at most {found.at_most:.1f} (one-sided 95%){by_scenario}")


if __name__ == "__main__":
    main()
