"""What the words and the intervals mean, and where the files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlver.components.report.material import Material
from rlver.components.report.panels.panel import Panel, ReportRun, no_tables
from rlver.components.report.wording import DASH


def values(material: Material, run: ReportRun) -> Mapping[str, Any]:
    starts = sorted({dialogue.emotion_start for variant in material.variants for dialogue in variant.dialogues})
    return {
        "starts": ", ".join(str(start) for start in starts),
        "is_bare": run.is_bare,
        "units": " or ".join(
            sorted({f"{v.sentient.get('interval_unit', 'persona')}s" for v in material.variants if v.sentient}) or ["personas"]
        ),
        "digests": [
            (variant.name, *((metrics or {}).get("settings_digest") or DASH for metrics in (variant.sentient, variant.general)))
            for variant in material.variants
        ],
    }


PANEL = Panel("notes", "Notes", values, no_tables)
