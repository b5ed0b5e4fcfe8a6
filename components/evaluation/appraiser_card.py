"""What a result says of the learned appraiser that decided it: which one, learned from whom, and how far it agrees with recorded users."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.evaluation.report.loading import Material
from components.simulator.distilled.folder import CARD, fidelity_of, folder_of

CARD_FILES = (f"{CARD}.json", f"{CARD}.md")
FIGURES = {
    "teacher_forced_r": ("teacher_forced", "expected", "r"),
    "teacher_forced_sign_accuracy": ("teacher_forced", "change", "sign_accuracy"),
    "free_running_r": ("free_running", "expected", "r"),
    "free_running_dialogue_r": ("free_running", "dialogue_mean_r"),
    "free_running_final_r": ("free_running", "final_r"),
    "free_running_final_mae": ("free_running", "final_mae"),
}


def appraiser_card(folder: Path) -> dict[str, Any]:
    """The card of the appraiser in `folder` in short: each figure of FIGURES as <name> and, with its 95% interval, <name>_ci95.

    Raises BadFile without a card, or with that of another appraiser.
    """
    digest = fidelity_of(folder)["digest"]
    card = json.loads((folder / f"{CARD}.json").read_text(encoding="utf-8"))
    ((held_out, split),) = card["splits"].items()
    short: dict[str, Any] = {
        "digest": digest,
        "learned_from": {name: card["origin"][name] for name in ("dialogues", "turns", "personas", "policies", "users")},
        "held_out": held_out,
        "held_out_dialogues": split["dialogues"],
        "held_out_turns": split["turns"],
    }
    for name, path in FIGURES.items():
        figure = split
        for part in path:
            figure = figure[part]
        short |= {name: figure["value"], f"{name}_ci95": figure["ci95"]}
    return short


def with_card(material: Material, named: str | None) -> Material:
    """The material of a report with the card of `simulator.appraiser`, if that is a distilled one. Raises BadFile."""
    return replace(material, shared={**material.shared, "appraiser": appraiser_card(folder_of(named))}) if named else material
