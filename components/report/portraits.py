"""The `portrait` of a policy in metrics/<variant>/sentient.json, read leniently: what is there is taken, what is not is left out.

capabilities  {name: {value, ci95, n}}       1 to 5
cognition     {x: {value, ci95}, y: …}       structured (-5) to creative (+5); solution (-5) to emotion (+5)
behaviour     {name: {value, ci95}}
strategies    {strategy: {quantity: {value, ci95}}}
acts          {act: {quantity: {value, ci95}}}
any text beside these says how it was measured

The dialogue acts of a report: which replies perform which, and the few that all panels show.

How policies changed in training: the portrait of every checkpoint, from the held-out dialogues that the training kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rlver.components.domain.acts import names_need
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.material import Material, Variant
from rlver.components.report.tables import Cell, Ends, ends
from rlver.components.scoring.acts import ALL
from rlver.components.scoring.portrait import portrait
from rlver.components.scoring.units import Sampling


class Estimate(NamedTuple):
    value: float
    ends: Ends | None


def portrait_of(variant: Variant) -> Mapping[str, Any]:
    """The portrait, or an empty one."""
    found = (variant.sentient or {}).get("portrait")
    return found if isinstance(found, Mapping) else {}


def estimate(value: Any) -> Estimate | None:
    """{"value": 3.1, "ci95": {"lo": 2.9, "hi": 3.3}} or a plain number; None for anything else, and for a value of null."""
    number, interval = (value.get("value"), value.get("ci95")) if isinstance(value, Mapping) else (value, None)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    return Estimate(float(number), None if interval is None else ends(interval))


def cell(found: Estimate | None) -> Cell:
    return Cell(*found) if found else Cell(None)


def estimates(of: Any) -> dict[str, Estimate]:
    """The estimates of a part of the portrait by name, in its order."""
    named = of.items() if isinstance(of, Mapping) else ()
    return {str(name): one for name, value in named if (one := estimate(value)) is not None}


def remarks(variant: Variant) -> dict[str, str]:
    """How the parts were measured: the texts beside the numbers, and the `method` of a part or of its quantities."""
    found = {name: value for name, value in portrait_of(variant).items() if isinstance(value, str)}
    parts = {name: part for name, part in portrait_of(variant).items() if estimates(part)}
    for name, part in parts.items():
        ways = {str(one["method"]) for one in (part, *part.values()) if isinstance(one, Mapping) and "method" in one}
        found |= {name: ", ".join(sorted(ways))} if ways else {}
    return found


_ACTS_SHOWN = 9


def shown_acts(material: Material) -> list[str]:
    """The most used acts over all variants, each variant weighing the same; most used first."""
    weight: dict[str, float] = {}
    for variant in material.variants:
        replies = [acts for _, _, acts in replies_with_acts(variant.dialogues)]
        for act, count in Counter(act for acts in replies for act in acts).items():
            weight[act] = weight.get(act, 0.0) + count / len(replies)
    return [act for act, _ in sorted(weight.items(), key=lambda item: (-item[1], item[0]))[:_ACTS_SHOWN]]


def replies_with_acts(dialogues: Sequence[Dialogue]) -> list[tuple[str, int, set[str]]]:
    """Persona, turn and acts of every appraised reply of the dialogues that can be scored; empty when no appraisal names an act."""
    found = [
        (dialogue.persona_id, number, {e.what for e in turn.appraisal.evidence if e.step == "content"} & ALL)
        for dialogue in dialogues
        if dialogue.emotion_final is not None and names_need(dialogue)
        for number, turn in enumerate(dialogue.turns)
        if turn.appraisal is not None
    ]
    return found if any(acts for _, _, acts in found) else []


class Series(NamedTuple):
    """One quantity of one variant, steps rising; a step at which it is not known is left out."""

    position: int  # of the variant's colour
    variant: str
    points: tuple[tuple[int, Estimate], ...]


def with_portraits(material: Material, how: Sampling) -> Material:
    """The material with the portraits of its checkpoints as metrics of the kind `over_training`, for the variants that kept any."""

    def portrayed(variant: Variant) -> Variant:
        if not variant.checkpoints:
            return variant
        steps = [{"step": step, "portrait": portrait(held_out, how)} for step, held_out in variant.checkpoints.items()]
        return replace(variant, metrics={**variant.metrics, "over_training": {"steps": steps}})

    return replace(material, variants=tuple(map(portrayed, material.variants)))


def steps_of(variant: Variant) -> list[tuple[int, Any]]:
    """Step and portrait of every checkpoint."""
    return [(one["step"], one["portrait"]) for one in variant.metrics.get("over_training", {}).get("steps", ())]


def quantity(portrayed: Any, path: Sequence[str]) -> Estimate | None:
    """The quantity of a portrait that lies under the names of `path`; None where it is not known."""
    for name in path:
        portrayed = portrayed.get(name) if isinstance(portrayed, Mapping) else None
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
    found = variant.metrics.get("audit", {}).get("reward_overoptimization", ())
    return tuple((one["step"], mean) for one in found if (mean := estimate(one[whose])) is not None)
