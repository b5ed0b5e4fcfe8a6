"""The published findings as contrasts of this run's policies, and which of them reappear. Computed, never written by hand.

A claim is a weighted sum of ways of training, positive where the claim holds. Final emotions are judged with the variance of training and
of scenarios (components/scoring/crossed.py). Learning curves keep only means, so what is read off them is paired by seed. All rows are
one family of tests, and nothing is decided on one seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.polynomial import Polynomial

from rlver.components.scoring.crossed import EQUIVALENT, LEAST_SEEDS, Difference, Side, Verdict, crossed, verdicts
from rlver.components.scoring.statistics import Estimated, Interval, paired_scores
from rlver.tasks.studies.paper.material import CURRICULUM, USERS, PaperKind, PaperPolicy, PaperRun

Curve = tuple[Sequence[float], Sequence[float]]  # steps, mean final emotions (NaN where not measured)

_WHOLE = Interval(-200.0, 200.0)  # of a difference of differences
_BENDS = 3  # degree of the polynomial through a learning curve
# A rise is of a quarter of the training: over the half that is looked at it comes to the margin of a level.
RISE_EQUIVALENT = EQUIVALENT / 2


def seed_contrast(higher: Mapping[int, float], lower: Mapping[int, float], margin: float = EQUIVALENT) -> Difference | None:
    """Mean over shared seeds of `higher` minus `lower`; one seed says nothing about the spread. None without a shared seed."""
    seeds = sorted(higher.keys() & lower.keys())
    if not seeds:
        return None
    differences = [higher[seed] - lower[seed] for seed in seeds]
    test = paired_scores(differences) if len(seeds) >= LEAST_SEEDS else None
    return Difference(math.fsum(differences) / len(seeds), test, len(seeds), 1, margin)


def height(curve: Curve, begin: float, end: float) -> float:
    """Mean height between two shares of the training under a smoothed curve: the least-squares cubic, so no single point decides.

    Raises ValueError for a curve of fewer than two measured points.
    """
    measured = [(step, emotion) for step, emotion in zip(*curve, strict=True) if not math.isnan(emotion)]
    if len(measured) < 2:
        raise ValueError(f"a learning curve needs 2 measured points, got {len(measured)}")
    steps, emotions = (np.array(side, dtype=float) for side in zip(*measured, strict=True))
    area = Polynomial.fit(steps, emotions, min(_BENDS, len(measured) - 1)).integ()
    first, last = (steps[0] + share * (steps[-1] - steps[0]) for share in (begin, end))
    return float((area(last) - area(first)) / (last - first))


def late_height(curve: Curve) -> float:
    return height(curve, 0.5, 1.0)


def late_rise(curve: Curve) -> float:
    """The last quarter of the training minus the quarter before; negative for a policy that loses again what it had learned."""
    return height(curve, 0.75, 1.0) - height(curve, 0.5, 0.75)


VANILLA, CHALLENGING = USERS
ALGORITHMS = ("ppo", "grpo")


class FindingOutcome(StrEnum):
    REAPPEARS = "reappears"
    OPPOSITE = "does not reappear"
    EQUIVALENT = "equivalent"
    UNKNOWN = "unknown"
    NOT_MEASURED = "not measured"


_OUTCOMES = {
    Verdict.HIGHER: FindingOutcome.REAPPEARS,
    Verdict.LOWER: FindingOutcome.OPPOSITE,
    Verdict.EQUIVALENT: FindingOutcome.EQUIVALENT,
    Verdict.UNKNOWN: FindingOutcome.UNKNOWN,
}


@dataclass(frozen=True)
class FindingRow:
    """One test of a claim. `missing` names what it would need, when there is no difference."""

    case: str  # of which policies
    user: str  # with which user it was measured
    difference: Difference | None
    seeds: tuple[int, ...]
    missing: tuple[str, ...]
    outcome: FindingOutcome = FindingOutcome.NOT_MEASURED

    @property
    def estimate(self) -> Estimated | None:
        return None if self.difference is None else self.difference.estimated(_WHOLE)


@dataclass(frozen=True)
class Finding:
    """A claim, where it is from, what the estimate is, what its interval counts as chance, and its rows."""

    claim: str
    source: str
    measure: str
    over: str
    rows: tuple[FindingRow, ...]


def findings(paper: PaperRun) -> list[Finding]:
    """All claims that the paper run can speak to, each row with its outcome."""
    claims = _claims(paper)
    rows = {f"{claim.claim}/{number}": row for claim in claims for number, row in enumerate(claim.rows)}
    found = verdicts({name: row.difference for name, row in rows.items()})

    def judged(name: str, row: FindingRow) -> FindingRow:
        return row if row.difference is None else replace(row, outcome=_OUTCOMES[found[name]])

    return [replace(claim, rows=tuple(judged(f"{claim.claim}/{number}", row) for number, row in enumerate(claim.rows))) for claim in claims]


def _claims(paper: PaperRun) -> list[Finding]:
    """The claims with their differences, not judged yet."""

    def by_persona(cases: Iterable[tuple[str, Sequence[tuple[float, PaperKind]]]]) -> tuple[FindingRow, ...]:
        return tuple(_emotion_row(paper, case, user, weighted) for case, weighted in cases for user in USERS)

    def think(algorithm: str, users: str = VANILLA) -> PaperKind:
        return PaperKind(algorithm, True, users)

    def direct(algorithm: str, users: str = VANILLA) -> PaperKind:
        return PaperKind(algorithm, False, users)

    emotion, over_both = "difference of the mean final emotion", "seeds and scenarios"
    return [
        Finding(
            "Thinking beats direct replies", "RLVER, Table 1", emotion, over_both,
            by_persona((a.upper(), [(1, think(a)), (-1, direct(a))]) for a in ALGORITHMS),
        ),
        Finding(
            "PPO ends above GRPO when thinking", "RLVER, Table 1", emotion, over_both,
            by_persona([("PPO, GRPO", [(1, think("ppo")), (-1, think("grpo"))])]),
        ),
        Finding(
            "PPO reaches the higher peak", "RLVER, sections 3.5 to 3.7", "difference of the held-out curve's height, second half of training", "seeds",
            tuple(_curve_row(paper, kind("ppo"), kind("grpo"), late_height, EQUIVALENT) for kind in (think, direct)),
        ),
        Finding(
            "GRPO is the steadier one", "RLVER, sections 3.5 to 3.7", "difference of the held-out curve's rise, last quarter over the one before", "seeds",
            tuple(_curve_row(paper, kind("grpo"), kind("ppo"), late_rise, RISE_EQUIVALENT) for kind in (think, direct)),
        ),
        Finding(
            "A vanilla user is the better teacher than a challenging one", "RLVER, Table 3 (PPO)", emotion, over_both,
            by_persona((kind(a).recipe, [(1, kind(a)), (-1, kind(a, CHALLENGING))]) for a in ALGORITHMS for kind in (think, direct)),
        ),
        Finding(
            "Direct replies lose more than thinking by a challenging teacher", "RLVER, Table 3 (PPO)", "difference of the two losses", over_both,
            by_persona(
                (a.upper(), [(1, direct(a)), (-1, direct(a, CHALLENGING)), (-1, think(a)), (1, think(a, CHALLENGING))]) for a in ALGORITHMS
            ),
        ),
        Finding(
            "A curriculum of users beats the vanilla user alone", "ours, after RLVER, section 4.4", emotion, over_both,
            by_persona((think(a).recipe, [(1, think(a, CURRICULUM)), (-1, think(a))]) for a in ALGORITHMS),
        ),
        Finding(
            "A curriculum of users beats the challenging user alone", "ours, after RLVER, section 4.4", emotion, over_both,
            by_persona((think(a).recipe, [(1, think(a, CURRICULUM)), (-1, think(a, CHALLENGING))]) for a in ALGORITHMS),
        ),
    ]  # fmt: skip


def _emotion_row(paper: PaperRun, case: str, user: str, weighted: Sequence[tuple[float, PaperKind]]) -> FindingRow:
    sides = [
        Side(weight, {policy.run.seed: policy.tested[user].emotions for policy in paper.of_kind(kind) if user in policy.tested})
        for weight, kind in weighted
    ]
    seeds = sorted({seed for side in sides for seed in side.by_seed})
    return _row(paper, case, user, [kind for _, kind in weighted], crossed(sides, paper.scenarios), seeds)


def _curve_row(paper: PaperRun, higher: PaperKind, lower: PaperKind, of: Callable[[Curve], float], margin: float) -> FindingRow:
    sides = [{policy.run.seed: of(curve) for policy in paper.of_kind(kind) if (curve := _curve(policy))} for kind in (higher, lower)]
    contrast = seed_contrast(sides[0], sides[1], margin)
    return _row(paper, higher.prompt, "held-out personas", [higher, lower], contrast, sorted(sides[0].keys() & sides[1].keys()))


def _curve(policy: PaperPolicy) -> Curve | None:
    """None where fewer than two points of it were measured."""
    if policy.held_out is None or "emotion_mean" not in policy.held_out.columns:
        return None
    emotions = policy.held_out.columns["emotion_mean"]
    return (policy.held_out.steps, emotions) if sum(not math.isnan(emotion) for emotion in emotions) > 1 else None


def _row(
    paper: PaperRun, case: str, user: str, kinds: Sequence[PaperKind], difference: Difference | None, seeds: Sequence[int]
) -> FindingRow:
    if difference is not None:
        return FindingRow(case, user, difference, tuple(seeds), ())
    unfinished = [policy.run.name for kind in kinds for policy in paper.of_kind(kind) if policy.problem is not None]
    unplanned = [str(kind) for kind in kinds if not paper.of_kind(kind)]
    return FindingRow(case, user, None, (), tuple(unfinished + unplanned) or ("policies with a seed in common",))
