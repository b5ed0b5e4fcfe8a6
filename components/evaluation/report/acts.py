"""The dialogue acts of a report: which replies perform which, and the few that all panels show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from components.dialogue.transcript import Dialogue
from components.evaluation.report.loading import Material

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
    """Persona, turn and acts of every appraised reply; empty when no appraisal names an act."""
    found = [
        (dialogue.persona_id, number, {e.what for e in turn.appraisal.evidence if e.step == "content"})
        for dialogue in dialogues
        for number, turn in enumerate(dialogue.turns)
        if turn.appraisal is not None
    ]
    return found if any(acts for _, _, acts in found) else []
