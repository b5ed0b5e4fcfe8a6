"""How often a verdict on two ways of training errs: `python -m benchmarks.verdicts`.

Studies are simulated whose truth is known: so many policies of either way of training, all with the same 100 personas of 16 scenarios,
three dialogues each. The final emotions of one policy vary by `--dialogue-sd` between dialogues with a persona; what a persona makes of
one way of training and not of the other has an SD of `--persona-sd`, of which the share ICC belongs to its scenario (benchmarks.spreads
measures them); and every policy has a level of its own: the seed SD. Both sides are then judged by components/scoring/crossed.py, as the
paper run judges its policies.

Shown for every seed SD and ICC: how often the 95% interval covers the truth; how often a difference is claimed where there is none (or
the wrong way); how often two ways are called equivalent that are just the margin apart; and the same error of the interval over personas
alone. One line more is of a table of as many comparisons as the paper run judges together after Holm: how often any of them errs. Then how often a
difference of 5 points, and one of 12, is found with so many seeds: judged alone, and as the only one of such a table after Holm. It ends
where 5 points are found so 80% of the time at seed SDs of 2 and 4. The exit status is 1 where the intervals cover less than 93% or more
than 97%, or an error is above 5%, give or take what chance does in so many studies, or where no number of seeds finds 5 points judged alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.interval_coverage import by_chance
from rlver.components.scoring.crossed import EQUIVALENT, LEAST_SEEDS, Difference, Side, Verdict, crossed, verdicts
from rlver.components.scoring.statistics import Interval, Paired, p_differs, paired_scores
from rlver.tasks.studies.paper.contrasts import findings
from rlver.tasks.studies.paper.material import PaperRun

PERSONAS, SCENARIOS, REPEATS = 100, 16, 3
DIALOGUE_SD, PERSONA_SD = 18.0, 11.0  # points; of the base and the default run (docs/statistics.md): two trained policies differ less
WHO = {f"p{number}": f"s{number % SCENARIOS}" for number in range(PERSONAS)}
WHOSE = np.array([number % SCENARIOS for number in range(PERSONAS)])
SEED_SDS, ICCS = (0.0, 2.0, 4.0), (0.0, 0.1, 0.3)
SMALL, LARGE = 5.0, 12.0  # true differences, points
FAMILY = sum(len(finding.rows) for finding in findings(PaperRun((), {})))  # rows of a table, as many as the paper run judges together
FOUND = 0.8
WHOLE = Interval(-math.inf, math.inf)


@dataclass(frozen=True)
class World:
    seed_sd: float
    icc: float
    seeds: int  # of either side
    dialogue_sd: float = DIALOGUE_SD
    persona_sd: float = PERSONA_SD

    def study(self, truth: float, random: np.random.Generator) -> tuple[Difference, bool]:
        """What a study finds, and whether the interval over personas alone would have claimed a difference."""
        taste = random.normal(0, self.persona_sd * math.sqrt(1 - self.icc), PERSONAS)
        taste += random.normal(0, self.persona_sd * math.sqrt(self.icc), SCENARIOS)[WHOSE]
        sides = [self._side(truth / 2 + taste / 2, random), self._side(-truth / 2 - taste / 2, random)]
        difference = crossed([Side(1, _by_seed(sides[0])), Side(-1, _by_seed(sides[1]))], WHO)
        assert difference is not None
        return difference, p_differs(paired_scores(list(sides[0].mean(axis=0) - sides[1].mean(axis=0)))) < 0.05

    def _side(self, level: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """(seeds, personas): mean over dialogues."""
        policies = random.normal(0, self.seed_sd, (self.seeds, 1))
        return level + policies + random.normal(0, self.dialogue_sd / math.sqrt(REPEATS), (self.seeds, PERSONAS))


def _by_seed(side: np.ndarray) -> dict[int, dict[str, list[float]]]:
    return {seed: {name: [value] for name, value in zip(WHO, row, strict=True)} for seed, row in enumerate(side)}


@dataclass(frozen=True)
class Rates:
    """Shares of the studies."""

    covers: float
    errs: float  # claims a difference where there is none
    errs_by_personas: float  # the same of the interval over personas alone
    equivalence_errs: float  # calls equivalent what is the margin apart


def rates(world: World, studies: int, random: np.random.Generator) -> Rates:
    none = [world.study(0.0, random) for _ in range(studies)]
    apart = [world.study(EQUIVALENT, random)[0] for _ in range(studies)]
    ends = [(0.0, one.estimated(WHOLE).ci95) for one, _ in none] + [(EQUIVALENT, one.estimated(WHOLE).ci95) for one in apart]
    return Rates(
        sum(low <= truth <= high for truth, (low, high) in ends) / len(ends),
        judged([one for one, _ in none], Verdict.HIGHER, Verdict.LOWER),
        sum(alone for _, alone in none) / studies,
        judged(apart, Verdict.EQUIVALENT),
    )


def judged(found: Iterable[Difference], *wanted: Verdict, rows: int = 1) -> float:
    """Share of the differences that get one of these verdicts, each judged alone, or as the only one of so many rows that is shown."""
    nothing = {str(row): Difference(0.0, Paired(0.0, 1.0, SCENARIOS), LEAST_SEEDS, SCENARIOS) for row in range(1, rows)}
    outcomes = [verdicts({"": one} | nothing)[""] for one in found]
    return sum(outcome in wanted for outcome in outcomes) / len(outcomes)


def family_errs(world: World, families: int, random: np.random.Generator) -> tuple[float, float]:
    """(share of tables without any difference that claim one, share of tables of differences as large as the margin that call one equivalent)."""

    def errs(truth: float, *wrong: Verdict) -> float:
        tables = ({str(row): world.study(truth, random)[0] for row in range(FAMILY)} for _ in range(families))
        return sum(any(verdict in wrong for verdict in verdicts(table).values()) for table in tables) / families

    return errs(0.0, Verdict.HIGHER, Verdict.LOWER), errs(EQUIVALENT, Verdict.EQUIVALENT)


def power(seeds: int, truth: float, studies: int, random: np.random.Generator, *spread: float) -> list[tuple[float, float]]:
    """Share of true differences that are found (alone, in a whole table), at each seed SD, with the ICC in the middle; `spread` as in World."""
    worlds = [World(seed_sd, ICCS[1], seeds, *spread) for seed_sd in SEED_SDS]
    found = ([world.study(truth, random)[0] for _ in range(studies)] for world in worlds)
    return [(judged(one, Verdict.HIGHER), judged(one, Verdict.HIGHER, rows=FAMILY)) for one in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400, help="of each world and truth")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 5], help="policies of either side")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dialogue-sd", type=float, default=DIALOGUE_SD, help="points, between dialogues of a policy with a persona")
    parser.add_argument("--persona-sd", type=float, default=PERSONA_SD, help="points, of what a persona makes of the difference")
    args = parser.parse_args()
    spread = (args.dialogue_sd, args.persona_sd)
    random = np.random.default_rng(args.seed)
    kept = True
    print("| seeds | seed SD | ICC | covers | verdict errs | by personas alone | equivalence errs |")
    print("|---|---|---|---|---|---|---|")
    for seeds, seed_sd, icc in product(args.seeds, SEED_SDS, ICCS):
        rate = rates(World(seed_sd, icc, seeds, *spread), args.studies, random)
        slack = by_chance(0.05, 2 * args.studies)
        fine = 0.93 - slack <= rate.covers <= 0.97 + slack
        fine &= max(rate.errs, rate.equivalence_errs) <= 0.05 + by_chance(0.05, args.studies)
        kept &= fine
        shown = " | ".join(f"{share:.1%}" for share in (rate.covers, rate.errs, rate.errs_by_personas, rate.equivalence_errs))
        print(f"| {seeds} | {seed_sd:g} | {icc:g} | {shown} |{'' if fine else ' !'}", flush=True)
    errs, equivalence_errs = family_errs(World(2.0, ICCS[1], 3, *spread), args.studies, random)
    fine = max(errs, equivalence_errs) <= 0.05 + by_chance(0.05, args.studies)
    kept &= fine
    print(f"| 3, {FAMILY} rows after Holm | 2 | {ICCS[1]:g} | | {errs:.1%} | | {equivalence_errs:.1%} |{'' if fine else ' !'}", flush=True)
    print(f"\nFound, with an ICC of {ICCS[1]:g}: one difference judged alone (in brackets: the only one of {FAMILY}, after Holm)\n")
    print(f"| points | seeds | {' | '.join(f'seed SD {seed_sd:g}' for seed_sd in SEED_SDS)} |\n|---|---|---|---|---|")
    for truth, many in ((LARGE, (4, 6, 8, 12)), (SMALL, (4, 6, 8, 12, 16, 24, 32, 48, 64))):
        enough = False
        for seeds in sorted({*args.seeds, *many}):
            found = power(seeds, truth, args.studies, random, *spread)
            print(f"| {truth:g} | {seeds} | {' | '.join(f'{alone:.0%} ({among:.0%})' for alone, among in found)} |", flush=True)
            enough |= min(alone for alone, _ in found) >= FOUND
            if min(among for _, among in found) >= FOUND:
                break
    return 0 if kept and enough else 1


if __name__ == "__main__":
    sys.exit(main())
