"""The report's figures of one stage: learning curves of what was trained, trajectories of the emotion of what was said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.records import StageRecord, kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def of(record: StageRecord) -> Iterator[tuple[str, Figure]]:
    """(name, figure) of everything in a record that can be drawn."""
    from components.evaluation.report.curves import learning_curve, training_health
    from components.evaluation.report.loading import Material, Variant, read_curve
    from components.evaluation.report.trajectories import trajectories
    from components.evaluation.transcripts import load_transcripts

    name = record.variant or record.name
    for file in record.artifacts:
        if kind(file.name) == "logs" and file.path.is_dir():
            curves = read_curve(file.path / "train.csv"), read_curve(file.path / "evaluation.csv")
            trained = Material((Variant(name, False, (), {}, *curves),), {})
            yield from ((drawn.name, drawn.figure) for draw in (learning_curve, training_health) if (drawn := draw(trained)))
    for file in record.transcripts:
        said = Material((Variant(name, False, tuple(load_transcripts(file.path)), {}, None, None),), {})
        if drawn := trajectories(said):
            yield (drawn.name if len(record.transcripts) == 1 else f"{drawn.name} {file.path.stem}"), drawn.figure
