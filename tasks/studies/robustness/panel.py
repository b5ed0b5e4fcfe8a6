"""Does the score hold for other users? Every policy with every shift of the users, paired with the unshifted run (`rlver robustness`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile
from rlver.components.report.material import Material, known_shapes, read_object
from rlver.components.report.panels.panel import Panel, ReportRun, Sources
from rlver.components.report.tables import COUNT, FINE, NUMBER, SIGNED, Cell, Column, Table, ends
from rlver.components.report.wording import readable
from rlver.components.scoring.splits import user_of
from rlver.tasks.graph.lock import md5_of

_KIND, _STALE = "robustness", "of_another_model"
_COLUMNS = (
    Column("users", "Users"),
    Column("emotion_mean", "Final emotion", NUMBER, "emotion_ci95"),
    Column("change", "Change, paired", SIGNED, "change_ci95"),
    Column("p_holm", "p (Holm)", FINE),
    Column("detectable", "Detectable", NUMBER),
    Column("dialogues", "Dialogues", COUNT),
    Column("about", "What is different"),
)
_OPINION_COLUMNS = (
    Column("policy", "Policy"),
    Column("appraisers", "Appraisers"),
    Column("first", "Mean of the first", NUMBER),
    Column("second", "Mean of the second", NUMBER),
    Column("spearman", "Same order of dialogues", FINE, "spearman_ci95"),
)


def load_robustness(path: Path) -> Mapping[str, Any]:
    """What `rlver robustness` wrote. Raises BadFile."""
    if (found := read_object(path)) is None:
        raise BadFile(f"{path}: no such file; `rlver robustness` writes it")
    if "policies" not in found:
        raise BadFile(f"{path}: it is not what `rlver robustness` writes: it lacks policies")
    return found


@known_shapes()
def gather(material: Material, sources: Sources) -> Material:
    """The material with what `rlver robustness` wrote about the same policies, if a file of it is named. Raises BadFile.

    Without figures of a model that is another by now.
    """
    if (path := sources.files.get(_KIND)) is None:
        return material
    found = load_robustness(path)
    if sources.logs is not None:
        models = sources.logs.parent / "models"
        stale = {one["policy"] for one in found["policies"] if _is_another(one.get("md5"), models / one["policy"])}
        found = {
            **found,
            "policies": [{**one, _STALE: True} if one["policy"] in stale else one for one in found["policies"]],
            "second_opinions": [
                {**opinion, "policies": [one for one in opinion["policies"] if one["policy"] not in stale]}
                for opinion in found["second_opinions"]
            ],
        }
    return replace(material, shared={**material.shared, _KIND: found})


def _is_another(measured: str | None, model: Path) -> bool:
    return measured is not None and model.is_dir() and measured != md5_of(model)


def of_policy(one: Mapping[str, Any]) -> Table:
    name, title = f"robustness-{one['policy']}", f"Other users: {one['policy']}"
    if _STALE in one:
        return Table(name, title, _COLUMNS, (), "Figures of another model: run rlver robustness again.")
    rows = []
    for shift in one["shifts"]:
        change = shift["paired_to_unshifted"] or {}
        rows.append(
            (
                Cell(readable(shift["shift"])),
                Cell(
                    shift["emotion_mean"], ends(shift["emotion_ci95"]), f"{shift['unscorable']} unscorable" if shift["unscorable"] else ""
                ),
                Cell(change.get("difference"), ends(change.get("ci95"))),
                Cell(change.get("p_holm")),
                Cell(change.get("detectable")),
                Cell(shift["dialogues"]),
                Cell(shift["about"]),
            )
        )
    return Table(name, title, _COLUMNS, tuple(rows))


def opinions(found: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (
            Cell(policy["policy"]),
            Cell(f"{opinion['first']}, {opinion['second']}"),
            Cell(policy["emotion_mean_first"]),
            Cell(policy["emotion_mean_second"]),
            _rank(policy["spearman_over_dialogues"]),
        )
        for opinion in found["second_opinions"]
        for policy in opinion["policies"]
    )
    return Table("second-opinions", "Another appraiser on the same dialogues", _OPINION_COLUMNS, rows) if rows else None


def _rank(agreement: Mapping[str, Any] | None) -> Cell:
    return Cell(None) if agreement is None else Cell(agreement["value"], ends(agreement["ci95"]))


def tables(material: Material, _: ReportRun) -> Sequence[Table]:
    found = material.shared.get(_KIND)
    if found is None:
        return []
    second = opinions(found)
    return [*(of_policy(one) for one in found["policies"]), *([second] if second else [])]


def values(material: Material, _: ReportRun) -> Mapping[str, Any] | None:
    found = material.shared.get(_KIND)
    if found is None:
        return None
    unshifted = (row for one in found["policies"] for row in one["shifts"] if row["paired_to_unshifted"] is None)
    users = {row["user"] for row in unshifted if "user" in row}  # earlier versions wrote the difficulty only
    of_report = {user_of(dialogue) for variant in material.variants for dialogue in variant.dialogues}
    return {
        "policies": [(one["policy"], of_policy(one), one["not_measured"]) for one in found["policies"]],
        "personas": found["personas"],
        "users": ", ".join(sorted(users)) or found["difficulty"],
        "other_users": ", ".join(sorted(of_report - users)) if users else "",
        "opinions": opinions(found),
    }


PANEL = Panel(_KIND, "Other users", values, tables, after="appraiser", package=__package__, gather=gather)
