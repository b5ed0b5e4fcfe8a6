"""The robustness report as JSON (for the report page) and as Markdown (for the terminal)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlver.components.report.tables import PERCENT, Cell, Column, as_markdown, ends
from rlver.components.scoring.intervals import json_ready
from rlver.components.settings.settings import Settings
from rlver.components.users.shifts.users import about
from rlver.tasks.runtime.brackets import in_brackets
from rlver.tasks.studies.robustness import panel
from rlver.tasks.studies.robustness.robustness import SecondOpinion, ShiftRow

_SUCCESS = Column("success_rate", "Success", PERCENT, "success_ci95")
FEW = 5  # policies: with fewer, an order agrees by chance too easily


def policy_as_json(
    policy: str, md5: str | None, rows: Sequence[ShiftRow], files: Mapping[str, Path], missing: Mapping[str, str]
) -> dict[str, Any]:
    """One policy. `md5`: DVC's of the model folder, None behind an endpoint; `files`: the transcript of each shift; `missing`: why a shift
    could not be measured."""
    shifts = [json_ready(_row(row)) | {"transcripts": files[row.shift].as_posix()} for row in rows]
    return {"policy": policy, "md5": md5, "shifts": shifts, "not_measured": dict(missing)}


def as_json(policies: Sequence[Mapping[str, Any]], opinions: Sequence[SecondOpinion], settings: Settings, personas: int) -> dict[str, Any]:
    """Emotions and differences in points of 0..100, rates in 0..1, intervals 95%."""
    return {
        "difficulty": settings.simulator.difficulty,
        "personas": personas,
        "seed": settings.seed,
        "settings_digest": settings.digest(),
        "policies": list(policies),
        "second_opinions": [json_ready(_opinion(one)) for one in opinions],
    }


def as_text(found: Mapping[str, Any]) -> str:
    """What `as_json` gives, as tables."""
    return "\n".join(part for one in found["policies"] for part in _of_policy(one)) + "\n" + "\n".join(_of_opinions(found))


def _row(row: ShiftRow) -> dict[str, Any]:
    score, change = row.score, row.change
    return {
        "shift": row.shift,
        "about": about(row.shift),
        "user": score.user,
        "dialogues": score.dialogues,
        "unscorable": score.unscorable,
        "emotion_mean": score.emotion.value,
        "emotion_ci95": score.emotion.ci95,
        "success_rate": score.success.value,
        "success_ci95": score.success.ci95,
        "failure_rate": score.failure.value,
        "failure_ci95": score.failure.ci95,
        "paired_to_unshifted": None
        if change is None
        else {
            "difference": change.difference.value,
            "ci95": change.difference.ci95,
            "personas": change.personas,
            "interval_unit": score.unit,
            "interval_units": change.difference.n,
            "p_value": change.p_value,
            "p_holm": change.p_holm,
            "detectable": change.detectable,
        },
    }


def _opinion(opinion: SecondOpinion) -> dict[str, Any]:
    return {
        "first": opinion.first,
        "second": opinion.second,
        "policies": [
            {
                "policy": policy,
                "emotion_mean_first": first,
                "emotion_mean_second": second,
                "spearman_over_dialogues": opinion.dialogues[policy],
            }
            for policy, (first, second) in opinion.means.items()
        ],
        "spearman_over_policies": opinion.policies_rho,
        "kendall_over_policies": opinion.policies_tau,
    }


def _of_policy(one: Mapping[str, Any]) -> Iterator[str]:
    """The page's table with the names of the shifts as they are asked for, the rate of success, and failed dialogues beside all of them."""
    table, rows = panel.of_policy(one), []
    for row, (_, emotion, *change, dialogues, what) in zip(one["shifts"], table.rows, strict=True):
        success = Cell(row["success_rate"], ends(row["success_ci95"]))
        told = (Cell(row["shift"]), emotion._replace(remark=""), *change, success, dialogues._replace(remark=emotion.remark), what)
        rows.append(told)
    yield as_markdown(replace(table, columns=(*table.columns[:-2], _SUCCESS, *table.columns[-2:]), rows=tuple(rows)))
    for shift, why in one["not_measured"].items():
        yield f"Not measured: {shift}: {why}\n"


def _of_opinions(found: Mapping[str, Any]) -> Iterator[str]:
    if table := panel.opinions(found):
        yield as_markdown(table)
    for one in found["second_opinions"]:
        if (count := len(one["policies"])) > 1:
            spearman, kendall = map(_rank, (one["spearman_over_policies"], one["kendall_over_policies"]))
            few = "; few policies agree easily by chance" if count < FEW else ""
            yield f"{one['first']}, {one['second']}: over {count} policies Spearman {spearman}, Kendall {kendall}{few}\n"


def _rank(agreement: Mapping[str, Any] | None) -> str:
    return "no order" if agreement is None else f"{agreement['value']:.2f} {in_brackets(agreement['ci95'])}"
