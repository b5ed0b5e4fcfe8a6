"""The panels in the order of the page. This is the one place where a new one is entered."""

from __future__ import annotations

from rlver.components.report.panels import (
    ability,
    appraiser,
    audit,
    dialogues,
    emotion,
    honesty,
    learning,
    needs,
    notes,
    over_training,
    portrait,
    results,
    robustness,
    strategies,
)
from rlver.components.report.panels.panel import Panel

PANELS: tuple[Panel, ...] = (
    results.PANEL,
    needs.PANEL,
    emotion.PANEL,
    portrait.PANEL,
    strategies.PANEL,
    learning.PANEL,
    over_training.PANEL,
    ability.PANEL,
    honesty.PANEL,
    appraiser.PANEL,
    robustness.PANEL,
    audit.PANEL,
    dialogues.PANEL,
    notes.PANEL,
)
