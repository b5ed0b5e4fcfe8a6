"""The published findings as contrasts of this run's policies, and which of them reappear. Computed, never written by hand.

Every contrast is turned so that a positive number is what the claim says. The outcome follows from the interval alone: above 0 the
finding reappears, below 0 the opposite is seen, else the data do not decide. Intervals are not adjusted for the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from components.evaluation.paper.contrasts import Contrast, Term, fall, peak, persona_contrast, seed_contrast
from components.evaluation.paper.material import PaperRun
from components.evaluation.paper.runs import CURRICULUM, USERS, Kind
from components.evaluation.statistics import Estimated

VANILLA, CHALLENGING = USERS
ALGORITHMS = ("ppo", "grpo")


class Outcome(StrEnum):
    REAPPEARS = "reappears"
    OPPOSITE = "does not reappear"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Row:
    """One test of a claim. `missing` names what it would need, when there is no estimate."""

    case: str  # of which policies
    user: str  # with which user it was measured
    estimate: Estimated | None
    seeds: tuple[int, ...]
    missing: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        if self.estimate is None:
            return Outcome.NOT_MEASURED
        low, high = self.estimate.ci95
        return Outcome.REAPPEARS if low > 0 else Outcome.OPPOSITE if high < 0 else Outcome.INCONCLUSIVE


@dataclass(frozen=True)
class Finding:
    """A claim, where it is from, what the estimate is, over what its interval goes, and its rows."""

    claim: str
    source: str
    measure: str
    over: str
    rows: tuple[Row, ...]


def findings(paper: PaperRun, samples: int, seed: int) -> list[Finding]:
    """All claims that the paper run can speak to. `samples` and `seed` are those of the bootstrap."""

    def by_persona(case: str, *weighted: tuple[float, Kind]) -> list[Row]:
        return [_persona_row(paper, case, user, weighted, samples, seed) for user in USERS]

    def think(algorithm: str, users: str = VANILLA) -> Kind:
        return Kind(algorithm, True, users)

    def direct(algorithm: str, users: str = VANILLA) -> Kind:
        return Kind(algorithm, False, users)

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


def counts(found: Sequence[Finding]) -> dict[Outcome, int]:
    """How many rows came out how."""
    outcomes = [row.outcome for finding in found for row in finding.rows]
    return {outcome: outcomes.count(outcome) for outcome in Outcome}


def _persona_row(paper: PaperRun, case: str, user: str, weighted: Sequence[tuple[float, Kind]], samples: int, seed: int) -> Row:
    terms = [
        Term(weight, {policy.run.seed: policy.tested[user].emotions for policy in paper.of_kind(kind) if user in policy.tested})
        for weight, kind in weighted
    ]
    return _row(paper, case, user, [kind for _, kind in weighted], persona_contrast(terms, samples, seed))


def _curve_row(paper: PaperRun, higher: Kind, lower: Kind, of: Callable[[Sequence[float]], float]) -> Row:
    def by_seed(kind: Kind) -> dict[int, float]:
        return {
            policy.run.seed: of(policy.held_out.columns["emotion_mean"])
            for policy in paper.of_kind(kind)
            if policy.held_out is not None and "emotion_mean" in policy.held_out.columns
        }

    return _row(paper, higher.prompt, "held-out personas", [higher, lower], seed_contrast(by_seed(higher), by_seed(lower)))


def _row(paper: PaperRun, case: str, user: str, kinds: Sequence[Kind], contrast: Contrast | None) -> Row:
    if contrast is not None:
        return Row(case, user, contrast.estimate, contrast.seeds, ())
    unfinished = [policy.run.name for kind in kinds for policy in paper.of_kind(kind) if policy.problem is not None]
    unplanned = [str(kind) for kind in kinds if not paper.of_kind(kind)]
    return Row(case, user, None, (), tuple(unfinished + unplanned) or ("policies with a seed in common",))


def _flat(groups: Iterable[list[Row]]) -> tuple[Row, ...]:
    return tuple(row for group in groups for row in group)
