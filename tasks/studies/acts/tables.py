"""A reading of labelled replies, laid beside the labels as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlver.components.settings.settings import Settings
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.tasks.runtime.brackets import shown
from rlver.tasks.studies.acts.detection import (
    Consequence,
    Detection,
    LabelledReply,
    consequences,
    detection,
    read_by_patterns,
    taken_by_scripted,
    wrongly_read,
)


def report(styles: Mapping[str, list[LabelledReply]], settings: Settings) -> str:
    """The scripted user's reading: two tables for each style and, if there are several, for all replies.

    The first says what is read, the second what that does to the user's emotion.
    """
    samples, seed = settings.evaluation.bootstrap_samples, settings.seed
    difficulty = DIFFICULTIES[settings.simulator.difficulty]
    together = {"all styles": [row for rows in styles.values() for row in rows]} if len(styles) > 1 else {}
    parts = []
    for style, rows in {**styles, **together}.items():
        messages, faultless = len({row.user for row in rows}), len(rows) - len(wrongly_read(rows, read_by_patterns))
        parts.append(f"{style}: {len(rows)} replies to {messages} messages; {faultless} read without a mistake")
        parts.append(detections(detection(rows, read_by_patterns, samples, seed)))
        parts.append(consequence_table(consequences(rows, taken_by_scripted(difficulty), samples, seed)))
    return "\n\n".join(parts)


def mistakes(styles: Mapping[str, list[LabelledReply]]) -> str:
    """Every reply in which an act is overlooked or invented, with these acts."""
    lines = []
    for style, rows in styles.items():
        for row in wrongly_read(rows, read_by_patterns):
            found = read_by_patterns(row)
            overlooked, invented = (", ".join(sorted(acts)) or "-" for acts in (row.acts - found, found - row.acts))
            lines.append(f"{style}: overlooked {overlooked}; invented {invented}: {' '.join(row.reply.split())}")
    return "\n".join(lines)


def detections(rows: Sequence[Detection]) -> str:
    header = ("act", "labelled", "found", "precision", "recall", "F1")
    return table(
        [header, *((one.act, str(one.labelled), str(one.found), *map(shown, (one.precision, one.recall, one.f1))) for one in rows)]
    )


def consequence_table(taken: Sequence[Consequence]) -> str:
    header = ("a reply that", "replies", "emotion rises", "falls", "mean change")
    return table([header, *((one.reply, str(one.rises.n), *map(shown, (one.rises, one.falls, one.change))) for one in taken)])


def table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
