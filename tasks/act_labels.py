"""What `rlver simulator acts` does: lay the scripted appraiser's reading of labelled replies beside the labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from components import evaluation
from components.evaluation.act_detection import Detection, LabelledReply, detection, load_labels, wrongly_read
from components.evaluation.statistics import Estimated
from components.settings import load_settings

PACKAGED = Path(next(iter(evaluation.__path__))) / "act_labels"
_HEADER = ("act", "labelled", "found", "precision", "recall", "F1")


def labelled(files: Sequence[Path]) -> dict[str, list[LabelledReply]]:
    """The labelled replies by style, which is the file's name; without files those that come with this project."""
    return {path.stem: load_labels(path) for path in files or sorted(PACKAGED.glob("*.yaml"))}


def report(styles: dict[str, list[LabelledReply]], params: Path) -> str:
    """A table for each style and, if there are several, one of all replies."""
    settings = load_settings(params)
    together = {"all styles": [row for rows in styles.values() for row in rows]} if len(styles) > 1 else {}
    return "\n\n".join(
        f"{style}: {len(rows)} replies to {len({row.user for row in rows})} messages; {len(rows) - len(wrongly_read(rows))} read without a "
        f"mistake\n{_table(detection(rows, settings.evaluation.bootstrap_samples, settings.seed))}"
        for style, rows in {**styles, **together}.items()
    )


def mistakes(styles: dict[str, list[LabelledReply]]) -> str:
    """Every reply in which an act is overlooked or invented, with these acts."""
    lines = []
    for style, rows in styles.items():
        for row in wrongly_read(rows):
            overlooked, invented = (", ".join(sorted(acts)) or "-" for acts in (row.acts - row.found, row.found - row.acts))
            lines.append(f"{style}: overlooked {overlooked}; invented {invented}: {' '.join(row.reply.split())}")
    return "\n".join(lines)


def _table(detections: Sequence[Detection]) -> str:
    rows = [_HEADER] + [
        (one.act, str(one.labelled), str(one.found), *(_shown(share) for share in (one.precision, one.recall, one.f1)))
        for one in detections
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _shown(share: Estimated | None) -> str:
    return "-" if share is None else f"{share.value:.2f} [{share.ci95.low:.2f}, {share.ci95.high:.2f}]"
