"""The report's own panels in the order of the page, and those of studies between them."""

from __future__ import annotations

from collections.abc import Iterable

from rlver.components.report.panels import (
    ability,
    appraiser,
    course,
    dialogues,
    emotion,
    learning,
    needs,
    notes,
    over_training,
    portrait,
    results,
    strategies,
)
from rlver.components.report.panels.panel import Panel

_PAGE = (results, needs, emotion, course, portrait, strategies, learning, over_training, ability, appraiser, dialogues, notes)
PANELS: tuple[Panel, ...] = tuple(module.PANEL for module in _PAGE)


def with_panels(of_studies: Iterable[Panel]) -> list[Panel]:
    """All panels in the order of the page."""
    panels = list(PANELS)
    for panel in of_studies:
        place = next((number for number, one in enumerate(panels, start=1) if one.name == panel.after), len(panels))
        panels.insert(place, panel)
    return panels
