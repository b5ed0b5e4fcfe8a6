"""The results that lie on disk, as one small table for people: the terminal after a run, and Prefect's artifact."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from rlver.components.domain.files import read_json, write_json
from rlver.components.report.tables import plain_table
from rlver.components.scoring import intervals, splits

REPORTS = {
    "report": Path("reports/index.html"),
    "paper": Path("paper/report/index.html"),
    "pretrained": Path("pretrained/report/index.html"),
}
SCORED = ("metrics", "pretrained/metrics", "bigger/metrics", "recipes/metrics")
FAILURES = Path("paper/logs/failures.json")


def table(root: Path) -> str | None:
    """A Markdown table of every sentient.json but the paper's, base first; None when there is none. Raises BadFile."""
    found = [path for place in SCORED for path in sorted(root.glob(f"{place}/*/sentient.json"))]
    rows = [(path.parent.name, _read(path)) for path in found]
    rows.sort(key=lambda row: row[0] != "base")
    if not rows:
        return None
    header = ("variant", "final emotion (95% CI)", "to base (95% CI)", "success", "failure", "dialogues", "personas")
    return plain_table(header, ((name, *_cells(values)) for name, values in rows))


def reports(root: Path) -> dict[str, Path]:
    """The first page of each report that was made: `report`, and each pipeline's by its folder."""
    return {name: root / page for name, page in REPORTS.items() if (root / page).is_file()}


def write_failures(root: Path, failures: Mapping[str, str], chosen: Container[str]) -> None:
    """Leave the reasons of failed stages, by stage, where the report of the paper run reads them; no file where there never were any.

    What is known of stages that were not `chosen` stays.
    """
    known = known_failures(root)
    left = {name: why for name, why in known.items() if name not in chosen} | dict(failures)
    if left != known:
        write_json(root / FAILURES, left)


def known_failures(root: Path) -> Mapping[str, str]:
    """The reasons that were left, by stage. Raises BadFile."""
    path = root / FAILURES
    return dict(read_json(path, "delete it")) if path.is_file() else {}


def forget_failure(root: Path, stage: str) -> None:
    """It has ended well since."""
    write_failures(root, {}, [stage])


def _read(path: Path) -> Mapping[str, Any]:
    values = read_json(path, "run `rlver run --only score` again")
    return values if isinstance(values, dict) else {}


def _cells(values: Mapping[str, Any]) -> tuple[str, ...]:
    paired = values.get("paired_to_base")
    paired = paired if isinstance(paired, dict) else {}
    return (
        f"{_number(values.get('emotion_mean'))} {_interval(values.get('emotion_ci95'))}".strip(),
        f"{_number(paired.get('difference'), '+.1f')} {_interval(paired.get('ci95'), '+.1f')}".strip() if paired else "",
        _number(values.get("success_rate"), ".0%"),
        _number(values.get("failure_rate"), ".0%"),
        _number(values.get("n"), ".0f"),
        splits.said(sets) if isinstance(sets := values.get("persona_splits"), dict) else "–",
    )


def _number(value: Any, form: str = ".1f") -> str:
    return format(value, form) if isinstance(value, (int, float)) and abs(value) < 1e9 else "–"


def _interval(value: Any, form: str = ".1f") -> str:
    try:
        low, high = intervals.from_json(value)
    except (LookupError, TypeError, ValueError):
        return ""
    return f"[{_number(low, form)}, {_number(high, form)}]"
