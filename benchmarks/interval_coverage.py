"""How often the 95% intervals hold the truth, and how often the tests cry wolf: `python -m benchmarks.interval_coverage`.

Every experiment draws data from a world whose truth is known and asks the functions that score policies. Final emotions look like those
of a weak base (most dialogues lost, a few won), of the recorded SAGE dialogues (two heaps), or of a trained policy; a persona has a level
of its own, so repeats are alike. Shares are drawn anew for each experiment: for one fixed share coverage jumps, as whole numbers do.
The exit status is 1 when an interval covers less than 93% or more than 97%, or a test raises more than 5% false alarms (both give or
take what chance does in so many experiments); kinds marked * may cover more.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np

from benchmarks import scenario_worlds
from benchmarks.emotion_worlds import ALIKE, Covered, Experiment, Random, by_persona, emotions, true_mean
from rlver.components.ability.noninferiority import ALPHA, LossOutcome, non_inferiority
from rlver.components.scoring import statistics
from rlver.components.scoring.statistics import Interval, paired_scores, paired_shares

SAMPLES = 2000
EMOTIONS, DIFFERENCES = Interval(0.0, 100.0), Interval(-100.0, 100.0)
LOWEST, HIGHEST = 0.93, 0.97


def mean_of(world: str, personas: int, repeats: int) -> Experiment:
    def experiment(random: Random) -> Covered:
        values = emotions(world, random.normal(0, math.sqrt(ALIKE), personas), repeats, random)
        return Covered(statistics.cluster_bootstrap(by_persona(values), SAMPLES, 7, EMOTIONS).ci95, true_mean(world))

    return experiment


def difference_of(base: str, tuned: str, personas: int, repeats: int) -> Experiment:
    """The same users meet both, and their levels count for both."""

    def experiment(random: Random) -> Covered:
        levels = random.normal(0, math.sqrt(ALIKE), personas)
        sides = [by_persona(emotions(world, levels, repeats, random)) for world in (tuned, base)]
        differences = statistics.paired_differences(*sides)
        return Covered(statistics.paired_mean(differences, SAMPLES, 7, DIFFERENCES).ci95, true_mean(tuned) - true_mean(base))

    return experiment


def _chances(share: float, personas: int, alike: float, random: Random) -> np.ndarray:
    """Each persona's own chance; `alike` is the correlation of its repeats."""
    return random.beta(share * (1 - alike) / alike, (1 - share) * (1 - alike) / alike, personas)


def share_of(low: float, high: float, personas: int, repeats: int, alike: float) -> Experiment:
    def experiment(random: Random) -> Covered:
        share = random.uniform(low, high)
        values = (random.random((personas, repeats)) < _chances(share, personas, alike, random)[:, None]).astype(float)
        return Covered(statistics.proportion(by_persona(values)).ci95, share)

    return experiment


def paired_share_of(base: tuple[float, float], tuned: tuple[float, float], personas: int, repeats: int) -> Experiment:
    def experiment(random: Random) -> Covered:
        shares = [random.uniform(*tuned), random.uniform(*base)]
        sides = [
            by_persona((random.random((personas, repeats)) < _chances(share, personas, 0.3, random)[:, None]).astype(float))
            for share in shares
        ]
        differences = statistics.paired_differences(*sides)
        return Covered(statistics.paired_share_interval(list(differences.values())), shares[0] - shares[1])

    return experiment


RARE, COMMON, USUAL = (0.005, 0.1), (0.2, 0.8), (0.9, 0.995)
INTERVALS: dict[str, Experiment] = {
    **{
        f"mean, {world}, {personas} x {repeats}": mean_of(world, personas, repeats)
        for world, personas, repeats in (
            ("weak", 12, 3), ("weak", 30, 1), ("weak", 30, 3), ("weak", 100, 1), ("weak", 100, 3), ("weak", 500, 1),
            ("two heaps", 12, 3), ("two heaps", 30, 1), ("two heaps", 100, 3), ("trained", 30, 3), ("trained", 100, 3),
        )
    },
    **{
        f"paired difference, {base} to {tuned}, {personas} x {repeats}": difference_of(base, tuned, personas, repeats)
        for base, tuned, personas, repeats in (
            ("weak", "trained", 12, 3), ("weak", "trained", 30, 1), ("weak", "trained", 30, 3), ("weak", "trained", 100, 3),
            ("weak", "weak", 30, 1), ("weak", "weak", 30, 3), ("weak", "weak", 100, 3), ("two heaps", "trained", 100, 1),
        )
    },
    **{
        f"share, {name}, {personas} x {repeats}, alike {alike}": share_of(*limits, personas, repeats, alike)
        for name, limits in (("rare", RARE), ("common", COMMON), ("usual", USUAL))
        for personas, repeats, alike in ((30, 1, 0.5), (30, 3, 0.05), (30, 3, 0.5), (100, 1, 0.5), (100, 3, 0.05), (100, 3, 0.5))
    },
    "share of replies, common, 100 x 30, alike 0.05": share_of(*COMMON, 100, 30, 0.05),
    "share of replies, rare, 100 x 30, alike 0.05": share_of(*RARE, 100, 30, 0.05),
    **{
        f"paired share, {name}, {personas} x {repeats}": paired_share_of(base, tuned, personas, repeats)
        for name, base, tuned in (("common to common", COMMON, COMMON), ("rare to common", RARE, COMMON), ("rare to rare*", RARE, RARE))
        for personas, repeats in ((30, 1), (30, 3), (100, 1), (100, 3))
    },
    **scenario_worlds.intervals(RARE, COMMON),
}  # fmt: skip


def false_alarm_in_a_comparison(random: Random) -> bool:
    """Two runs of one policy: does any of emotion, success, failure and turns differ after Holm?"""
    levels = random.normal(0, math.sqrt(ALIKE), 100)
    runs = [emotions("two heaps", levels, 3, random) for _ in range(2)]
    tests = {"emotion": paired_scores(list((runs[1] - runs[0]).mean(axis=1)))}
    tests |= {
        name: paired_shares(list((now.astype(float) - before).mean(axis=1)))
        for name, before, now in (("success", runs[0] >= 100, runs[1] >= 100), ("failure", runs[0] < 10, runs[1] < 10))
    }
    tests["turns"] = paired_scores(list(random.normal(0, 1, 100)))
    return _any_differs(tests)


def false_alarm_among_needs(random: Random) -> bool:
    """Two runs of one policy: does any of eight hidden needs with 12 personas each differ after Holm?"""
    tests = {}
    for need in range(8):
        levels = random.normal(0, math.sqrt(ALIKE), 12)
        runs = [emotions("weak", levels, 3, random) for _ in range(2)]
        tests[str(need)] = paired_scores(list((runs[1] - runs[0]).mean(axis=1)))
    return _any_differs(tests)


def _any_differs(tests: dict[str, statistics.Paired]) -> bool:
    return min(statistics.holm({name: statistics.p_differs(test) for name, test in tests.items()}).values()) <= ALPHA


def verdicts(loss: float, tasks: int, items: int, margin: float, random: Random, flips: float = 0.05) -> set[LossOutcome]:
    """Of a policy that has truly lost `loss` on each of `tasks` tasks; `flips` of the items flip either way besides."""
    paired = {
        str(task): paired_shares(list(random.choice([1.0, 0.0, -1.0], p=[flips, 1 - 2 * flips - loss, flips + loss], size=items)))
        for task in range(tasks)
    }
    return {verdict.outcome for verdict in non_inferiority(paired, dict.fromkeys(paired, margin)).values()}


FALSE_ALARMS: dict[str, Callable[[Random], bool]] = {
    "a comparison finds a difference between two runs of one policy (4 tests, Holm)": false_alarm_in_a_comparison,
    "a breakdown finds one among 8 hidden needs (8 tests, Holm)": false_alarm_among_needs,
    "a policy exactly at the margin passes on any of 3 tasks (247 items, Holm)": lambda r: (
        LossOutcome.PASS in verdicts(0.05, 3, 247, 0.05, r)
    ),
    "a policy that lost nothing fails on any of 3 tasks (247 items, Holm)": lambda r: LossOutcome.FAIL in verdicts(0.0, 3, 247, 0.05, r),
    "a policy exactly at the margin fails (5,000 items)": lambda r: LossOutcome.FAIL in verdicts(0.05, 1, 5000, 0.05, r),
}


def coverage(experiment: Experiment, experiments: int, seed: int) -> tuple[float, float]:
    """Share of the intervals that hold the truth, and their mean width."""
    random = np.random.default_rng(seed)
    found = [experiment(random) for _ in range(experiments)]
    return sum(one.holds for one in found) / experiments, sum(one.interval.high - one.interval.low for one in found) / experiments


def alarms(experiment: Callable[[Random], bool], experiments: int, seed: int) -> float:
    random = np.random.default_rng(seed)
    return sum(experiment(random) for _ in range(experiments)) / experiments


def by_chance(share: float, experiments: int) -> float:
    """How far a rate seen in so many experiments strays from `share` once in twenty times, to one side."""
    return 1.645 * math.sqrt(share * (1 - share) / experiments)


def keeps_the_bar(name: str, covered: float, experiments: int) -> bool:
    highest = 1.0 if "*" in name else HIGHEST + by_chance(HIGHEST, experiments)
    return LOWEST - by_chance(LOWEST, experiments) <= covered <= highest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    args = parser.parse_args()
    if not any(args.only in name for name in (*INTERVALS, *FALSE_ALARMS)):
        parser.error(f"--only {args.only}: no row has this in its name")
    kept = True
    print("| interval | covers | mean width |\n|---|---|---|")
    for name, experiment in ((name, one) for name, one in INTERVALS.items() if args.only in name):
        covered, width = coverage(experiment, args.experiments, args.seed)
        fine = keeps_the_bar(name, covered, args.experiments)
        kept &= fine
        print(f"| {name} | {covered:.1%}{'' if fine else ' !'} | {width:.3g} |", flush=True)
    print("\n| false alarm | rate |\n|---|---|")
    for name, alarm in ((name, one) for name, one in FALSE_ALARMS.items() if args.only in name):
        rate = alarms(alarm, args.experiments, args.seed)
        fine = rate <= ALPHA + by_chance(ALPHA, args.experiments)
        kept &= fine
        print(f"| {name} | {rate:.1%}{'' if fine else ' !'} |", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
