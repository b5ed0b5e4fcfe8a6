"""The scripted appraiser's reading of labelled replies, laid beside the labels as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlver.components.scoring.statistics import Estimated
from rlver.components.settings.settings import Settings
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.tasks.studies.acts.detection import Consequence, Detection, LabelledReply, consequences, detection, wrongly_read


def report(styles: Mapping[str, list[LabelledReply]], settings: Settings) -> str:
    """Two tables for each style and, if there are several, for all replies: what is read, and what that does to the user's emotion."""
    samples, seed = settings.evaluation.bootstrap_samples, settings.seed
    difficulty = DIFFICULTIES[settings.simulator.difficulty]
    together = {"all styles": [row for rows in styles.values() for row in rows]} if len(styles) > 1 else {}
    parts = []
    for style, rows in {**styles, **together}.items():
        messages, faultless = len({row.user for row in rows}), len(rows) - len(wrongly_read(rows))
        parts.append(f"{style}: {len(rows)} replies to {messages} messages; {faultless} read without a mistake")
        parts.append(_detections(detection(rows, samples, seed)))
        parts.append(_consequences(consequences(rows, difficulty, samples, seed)))
    return "\n\n".join(parts)


def mistakes(styles: Mapping[str, list[LabelledReply]]) -> str:
    """Every reply in which an act is overlooked or invented, with these acts."""
    lines = []
    for style, rows in styles.items():
        for row in wrongly_read(rows):
            overlooked, invented = (", ".join(sorted(acts)) or "-" for acts in (row.acts - row.found, row.found - row.acts))
            lines.append(f"{style}: overlooked {overlooked}; invented {invented}: {' '.join(row.reply.split())}")
    return "\n".join(lines)


def _detections(detections: Sequence[Detection]) -> str:
    header = ("act", "labelled", "found", "precision", "recall", "F1")
    return _table(
        [header, *((one.act, str(one.labelled), str(one.found), *map(_shown, (one.precision, one.recall, one.f1))) for one in detections)]
    )


def _consequences(taken: Sequence[Consequence]) -> str:
    header = ("a reply that", "replies", "emotion rises", "falls", "mean change")
    return _table([header, *((one.reply, str(one.rises.n), *map(_shown, (one.rises, one.falls, one.change))) for one in taken)])


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _shown(figure: Estimated | None) -> str:
    return "-" if figure is None else f"{figure.value:.2f} [{figure.ci95.low:.2f}, {figure.ci95.high:.2f}]"
