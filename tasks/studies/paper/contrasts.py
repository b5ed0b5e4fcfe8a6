"""A claim as a number: a weighted sum of policies, positive where the claim holds, with a 95% interval.

Two kinds of interval. Final emotions are paired by persona: the interval says how the result would vary with other users. Learning curves
keep only means, so what is read off them is paired by seed: with one seed there is an estimate and no interval.

The published findings as contrasts of this run's policies, and which of them reappear. Computed, never written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from rlver.components.scoring.statistics import Estimated, Interval, paired_mean, paired_scores, quantile
from rlver.tasks.studies.paper.material import CURRICULUM, USERS, PaperKind, PaperRun

Emotions = Mapping[str, Sequence[float]]  # by persona


class Term(NamedTuple):
    """One kind of policy in a contrast: its weight, and its values by seed."""

    weight: float
    by_seed: Mapping[int, Emotions]


class Contrast(NamedTuple):
    """The estimate and the seeds it rests on: those with which every kind was trained."""

    estimate: Estimated
    seeds: tuple[int, ...]


def persona_contrast(terms: Sequence[Term], samples: int, seed: int) -> Contrast | None:
    """Mean over personas of the weighted sum, with a bootstrap interval over personas.

    Within a persona repeats are averaged, then seeds. Only seeds that all terms share, and personas scored in all of them, count; None
    when there are none. Weights must sum to 0, so that the user's level cancels.
    """
    assert math.isclose(sum(term.weight for term in terms), 0.0, abs_tol=1e-9)
    seeds = _shared(terms)
    personas = set.intersection(*(set(term.by_seed[s]) for term in terms for s in seeds)) if seeds else set()
    if not personas:
        return None
    differences = {
        persona: math.fsum(term.weight * fmean(term.by_seed[s][persona]) for term in terms for s in seeds) / len(seeds)
        for persona in personas
    }
    return Contrast(paired_mean(differences, samples, seed, _whole(terms)), seeds)


def seed_contrast(higher: Mapping[int, float], lower: Mapping[int, float]) -> Contrast | None:
    """Mean over shared seeds of `higher` minus `lower`, both in -100..100, with Student's interval; one seed says nothing of the spread."""
    seeds = tuple(sorted(higher.keys() & lower.keys()))
    if not seeds:
        return None
    differences = [higher[seed] - lower[seed] for seed in seeds]
    if len(seeds) == 1:
        return Contrast(Estimated(differences[0], Interval(-200.0, 200.0), 1), seeds)
    paired = paired_scores(differences)
    half = quantile(0.975, paired.freedom) * paired.standard_error
    return Contrast(Estimated(paired.difference, Interval(paired.difference - half, paired.difference + half), paired.n), seeds)


def peak(emotions: Sequence[float]) -> float:
    """The best point of a curve; points that were not measured (NaN) do not count."""
    return max(emotion for emotion in emotions if not math.isnan(emotion))


def fall(emotions: Sequence[float]) -> float:
    """The last point minus the best: 0 for a run that ends at its best, negative for one that lost."""
    measured = [emotion for emotion in emotions if not math.isnan(emotion)]
    return measured[-1] - max(measured)


def _shared(terms: Sequence[Term]) -> tuple[int, ...]:
    return tuple(sorted(set.intersection(*(set(term.by_seed) for term in terms))))


def _whole(terms: Sequence[Term]) -> Interval:
    widest = 50.0 * sum(abs(term.weight) for term in terms)
    return Interval(-widest, widest)


VANILLA, CHALLENGING = USERS
ALGORITHMS = ("ppo", "grpo")


class FindingOutcome(StrEnum):
    REAPPEARS = "reappears"
    OPPOSITE = "does not reappear"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class FindingRow:
    """One test of a claim. `missing` names what it would need, when there is no estimate."""

    case: str  # of which policies
    user: str  # with which user it was measured
    estimate: Estimated | None
    seeds: tuple[int, ...]
    missing: tuple[str, ...]

    @property
    def outcome(self) -> FindingOutcome:
        if self.estimate is None:
            return FindingOutcome.NOT_MEASURED
        low, high = self.estimate.ci95
        return FindingOutcome.REAPPEARS if low > 0 else FindingOutcome.OPPOSITE if high < 0 else FindingOutcome.INCONCLUSIVE


@dataclass(frozen=True)
class Finding:
    """A claim, where it is from, what the estimate is, over what its interval goes, and its rows."""

    claim: str
    source: str
    measure: str
    over: str
    rows: tuple[FindingRow, ...]


def findings(paper: PaperRun, samples: int, seed: int) -> list[Finding]:
    """All claims that the paper run can speak to. `samples` and `seed` are those of the bootstrap."""

    def by_persona(case: str, *weighted: tuple[float, PaperKind]) -> list[FindingRow]:
        return [_persona_row(paper, case, user, weighted, samples, seed) for user in USERS]

    def think(algorithm: str, users: str = VANILLA) -> PaperKind:
        return PaperKind(algorithm, True, users)

    def direct(algorithm: str, users: str = VANILLA) -> PaperKind:
        return PaperKind(algorithm, False, users)

    emotion, over_users = "difference of the mean final emotion", "users"
    return [
        Finding(
            "Thinking beats direct replies", "RLVER, Table 1", emotion, over_users,
            _flat(by_persona(a.upper(), (1, think(a)), (-1, direct(a))) for a in ALGORITHMS),
        ),
        Finding(
            "PPO ends above GRPO when thinking", "RLVER, Table 1", emotion, over_users,
            tuple(by_persona("PPO, GRPO", (1, think("ppo")), (-1, think("grpo")))),
        ),
        Finding(
            "PPO reaches the higher peak", "RLVER, sections 3.5 to 3.7", "difference of the best held-out point", "seeds",
            tuple(_curve_row(paper, kind("ppo"), kind("grpo"), peak) for kind in (think, direct)),
        ),
        Finding(
            "GRPO is the steadier one", "RLVER, sections 3.5 to 3.7", "difference of last minus best held-out point", "seeds",
            tuple(_curve_row(paper, kind("grpo"), kind("ppo"), fall) for kind in (think, direct)),
        ),
        Finding(
            "A vanilla user is the better teacher than a challenging one", "RLVER, Table 3 (PPO)", emotion, over_users,
            _flat(
                by_persona(kind(a).recipe, (1, kind(a)), (-1, kind(a, CHALLENGING))) for a in ALGORITHMS for kind in (think, direct)
            ),
        ),
        Finding(
            "Direct replies lose more than thinking by a challenging teacher", "RLVER, Table 3 (PPO)",
            "difference of the two losses", over_users,
            _flat(
                by_persona(a.upper(), (1, direct(a)), (-1, direct(a, CHALLENGING)), (-1, think(a)), (1, think(a, CHALLENGING)))
                for a in ALGORITHMS
            ),
        ),
        Finding(
            "A curriculum of users beats the vanilla user alone", "ours, after RLVER, section 4.4", emotion, over_users,
            _flat(by_persona(think(a).recipe, (1, think(a, CURRICULUM)), (-1, think(a))) for a in ALGORITHMS),
        ),
        Finding(
            "A curriculum of users beats the challenging user alone", "ours, after RLVER, section 4.4", emotion, over_users,
            _flat(by_persona(think(a).recipe, (1, think(a, CURRICULUM)), (-1, think(a, CHALLENGING))) for a in ALGORITHMS),
        ),
    ]  # fmt: skip


def counts(found: Sequence[Finding]) -> dict[FindingOutcome, int]:
    """How many rows came out how."""
    outcomes = [row.outcome for finding in found for row in finding.rows]
    return {outcome: outcomes.count(outcome) for outcome in FindingOutcome}


def _persona_row(paper: PaperRun, case: str, user: str, weighted: Sequence[tuple[float, PaperKind]], samples: int, seed: int) -> FindingRow:
    terms = [
        Term(weight, {policy.run.seed: policy.tested[user].emotions for policy in paper.of_kind(kind) if user in policy.tested})
        for weight, kind in weighted
    ]
    return _row(paper, case, user, [kind for _, kind in weighted], persona_contrast(terms, samples, seed))


def _curve_row(paper: PaperRun, higher: PaperKind, lower: PaperKind, of: Callable[[Sequence[float]], float]) -> FindingRow:
    def by_seed(kind: PaperKind) -> dict[int, float]:
        return {
            policy.run.seed: of(policy.held_out.columns["emotion_mean"])
            for policy in paper.of_kind(kind)
            if policy.held_out is not None and "emotion_mean" in policy.held_out.columns
        }

    return _row(paper, higher.prompt, "held-out personas", [higher, lower], seed_contrast(by_seed(higher), by_seed(lower)))


def _row(paper: PaperRun, case: str, user: str, kinds: Sequence[PaperKind], contrast: Contrast | None) -> FindingRow:
    if contrast is not None:
        return FindingRow(case, user, contrast.estimate, contrast.seeds, ())
    unfinished = [policy.run.name for kind in kinds for policy in paper.of_kind(kind) if policy.problem is not None]
    unplanned = [str(kind) for kind in kinds if not paper.of_kind(kind)]
    return FindingRow(case, user, None, (), tuple(unfinished + unplanned) or ("policies with a seed in common",))


def _flat(groups: Iterable[list[FindingRow]]) -> tuple[FindingRow, ...]:
    return tuple(row for group in groups for row in group)
