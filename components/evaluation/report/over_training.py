"""How policies changed in training: the portrait of every checkpoint, from the held-out dialogues that the training kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from components.dialogue.transcript import Dialogue
from components.evaluation.portrait.acts import NO_ACTS
from components.evaluation.portrait.quantities import share
from components.evaluation.portrait.whole import portrait
from components.evaluation.report.acts import replies_with_acts
from components.evaluation.report.loading import Material, Variant
from components.evaluation.report.portraits import Estimate, estimate


class Series(NamedTuple):
    """One quantity of one variant, steps rising; a step at which it is not known is left out."""

    position: int  # of the variant's colour
    variant: str
    points: tuple[tuple[int, Estimate], ...]


def with_portraits(material: Material, samples: int, seed: int) -> Material:
    """The material with the portraits of its checkpoints as metrics of the kind `over_training`, for the variants that kept any."""

    def portrayed(variant: Variant) -> Variant:
        if not variant.checkpoints:
            return variant
        portraits = {step: portrait(held_out, samples, seed) for step, held_out in variant.checkpoints.items()}
        acts = {act for one in portraits.values() for act in one["acts"]}
        steps = [
            {"step": step, "portrait": {**one, "acts": {**_unused(acts, variant.checkpoints[step]), **one["acts"]}}}
            for step, one in portraits.items()
        ]
        return replace(variant, metrics={**variant.metrics, "over_training": {"steps": steps}})

    return replace(material, variants=tuple(map(portrayed, material.variants)))


def _unused(acts: Iterable[str], held_out: Sequence[Dialogue]) -> dict[str, Any]:
    """What a portrait leaves out because no reply did it: at another checkpoint one does, so here its frequency is a zero."""
    replies: dict[str, list[float]] = {}
    for persona, _, _ in replies_with_acts([dialogue for dialogue in held_out if dialogue.emotion_final is not None]):
        replies.setdefault(persona, []).append(0.0)
    return {act: {"frequency": share(replies, NO_ACTS)} for act in acts}


def steps_of(variant: Variant) -> list[tuple[int, Any]]:
    """Step and portrait of every checkpoint."""
    return [(one["step"], one["portrait"]) for one in variant.metrics.get("over_training", {}).get("steps", ())]


def quantity(portrayed: Any, path: Sequence[str]) -> Estimate | None:
    """The quantity of a portrait that lies under the names of `path`; None where it is not known."""
    for name in path:
        portrayed = portrayed.get(name, {})
    return estimate(portrayed)


def series(material: Material, path: Sequence[str]) -> list[Series]:
    """The quantity over the checkpoints of every variant that has any."""
    return [
        Series(position, variant.name, points)
        for position, variant in material.numbered
        if (points := tuple((step, one) for step, portrayed in steps_of(variant) if (one := quantity(portrayed, path)) is not None))
    ]


def opinions(variant: Variant, whose: str) -> tuple[tuple[int, Estimate], ...]:
    """Mean final emotion by step in the eyes of the user's own appraiser ("own") or of the second one ("second"), from the audit."""
    found = variant.metrics.get("audit", {}).get("over_training", ())
    return tuple((one["step"], mean) for one in found if (mean := estimate(one[whose])) is not None)
