"""The robustness report as JSON (for the report page) and as Markdown (for the terminal)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.report.tables import plain_table
from rlver.components.report.wording import DASH
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.components.settings.settings import Settings
from rlver.components.users.shifts.users import about
from rlver.tasks.studies.robustness.robustness import SecondOpinion, ShiftRow

FEW = 5  # policies: with fewer, an order agrees by chance too easily


@dataclass(frozen=True)
class PolicyRows:
    """One policy. `files`: the transcript of each shift; `missing`: why a shift could not be measured."""

    policy: str
    rows: tuple[ShiftRow, ...]
    files: Mapping[str, Path]
    missing: Mapping[str, str]


def as_json(policies: Sequence[PolicyRows], opinions: Sequence[SecondOpinion], settings: Settings, personas: int) -> dict[str, Any]:
    """Emotions and differences in points of 0..100, rates in 0..1, intervals 95%."""
    return {
        "difficulty": settings.simulator.difficulty,
        "personas": personas,
        "seed": settings.seed,
        "settings_digest": settings.digest(),
        "policies": [
            {
                "policy": one.policy,
                "shifts": [_row(row) | {"transcripts": one.files[row.shift].as_posix()} for row in one.rows],
                "not_measured": dict(one.missing),
            }
            for one in policies
        ],
        "second_opinions": [_opinion(one) for one in opinions],
    }


def as_text(policies: Sequence[PolicyRows], opinions: Sequence[SecondOpinion]) -> str:
    return "\n".join(line for one in policies for line in _policy_lines(one)) + "\n" + "\n".join(_opinion_lines(opinions))


def _row(row: ShiftRow) -> dict[str, Any]:
    score, change = row.score, row.change
    return {
        "shift": row.shift,
        "about": about(row.shift),
        "user": score.user,
        "dialogues": score.dialogues,
        "unscorable": score.unscorable,
        "emotion_mean": _rounded(score.emotion.value),
        "emotion_ci95": _ends(score.emotion.ci95),
        "success_rate": _rounded(score.success.value),
        "success_ci95": _ends(score.success.ci95),
        "failure_rate": _rounded(score.failure.value),
        "failure_ci95": _ends(score.failure.ci95),
        "paired_to_unshifted": None
        if change is None
        else {
            "difference": _rounded(change.difference.value),
            "ci95": _ends(change.difference.ci95),
            "personas": change.difference.n,
            "p_value": _rounded(change.p_value),
            "p_holm": _rounded(change.p_holm),
            "detectable": _rounded(change.detectable) if math.isfinite(change.detectable) else None,
        },
    }


def _opinion(opinion: SecondOpinion) -> dict[str, Any]:
    return {
        "first": opinion.first,
        "second": opinion.second,
        "policies": [
            {
                "policy": policy,
                "emotion_mean_first": _rounded(first),
                "emotion_mean_second": _rounded(second),
                "spearman_over_dialogues": _agreement(opinion.dialogues[policy]),
            }
            for policy, (first, second) in opinion.means.items()
        ],
        "spearman_over_policies": _agreement(opinion.policies_rho),
        "kendall_over_policies": _agreement(opinion.policies_tau),
    }


def _agreement(agreement: Estimated | None) -> dict[str, Any] | None:
    return None if agreement is None else {"value": _rounded(agreement.value), "ci95": _ends(agreement.ci95), "n": agreement.n}


def _policy_lines(one: PolicyRows) -> Iterator[str]:
    yield f"## {one.policy}"
    yield ""
    yield plain_table(
        (
            "users", "final emotion [95% CI]", "change from unshifted [95% CI]", "p (Holm)", "detectable", "success [95% CI]", "dialogues",
            "what it is",
        ),
        (
            (row.shift, _points(row.score.emotion), *_change(row), _share(row.score.success), _dialogues(row), about(row.shift))
            for row in one.rows
        ),
    )  # fmt: skip
    for shift, why in one.missing.items():
        yield f"\nNot measured: {shift}: {why}"
    yield ""


def _dialogues(row: ShiftRow) -> str:
    return f"{row.score.dialogues} ({row.score.unscorable} failed)" if row.score.unscorable else str(row.score.dialogues)


def _change(row: ShiftRow) -> tuple[str, str, str]:
    if row.change is None:
        return DASH, DASH, DASH
    p = "<0.001" if row.change.p_holm < 0.001 else f"{row.change.p_holm:.3f}"
    return _points(row.change.difference, "+"), p, f"{row.change.detectable:.1f}"


def _opinion_lines(opinions: Sequence[SecondOpinion]) -> Iterator[str]:
    yield "## Another appraiser on the unshifted dialogues"
    yield ""
    yield plain_table(
        ("appraisers", "policy", "mean of the first", "mean of the second", "Spearman over dialogues [95% CI]"),
        (
            (f"{opinion.first}, {opinion.second}", policy, f"{first:.1f}", f"{second:.1f}", _rank(opinion.dialogues[policy]))
            for opinion in opinions
            for policy, (first, second) in opinion.means.items()
        ),
    )
    for opinion in opinions:
        if len(opinion.means) > 1:
            yield ""
            yield (
                f"{opinion.first}, {opinion.second}: over {len(opinion.means)} policies Spearman {_rank(opinion.policies_rho)}, Kendall "
                f"{_rank(opinion.policies_tau)}{'; few policies agree easily by chance' if len(opinion.means) < FEW else ''}"
            )


def _rank(agreement: Estimated | None) -> str:
    return "no order" if agreement is None else f"{agreement.value:.2f} [{agreement.ci95.low:.2f}, {agreement.ci95.high:.2f}]"


def _points(estimated: Estimated, sign: str = "") -> str:
    low, high = estimated.ci95
    return f"{estimated.value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def _share(rate: Estimated) -> str:
    return f"{rate.value:.0%} [{rate.ci95.low:.0%}, {rate.ci95.high:.0%}]"


def _ends(interval: Interval) -> list[float]:
    return [_rounded(interval.low), _rounded(interval.high)]


def _rounded(value: float) -> float:
    return round(value, 6)
