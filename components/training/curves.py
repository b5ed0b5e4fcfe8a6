"""Where numbers go while work is under way: a JSONL and a CSV file with one row per step, exact after a resume."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlver.components.domain.files import read_jsonl, write_text_atomically


@dataclass(frozen=True)
class CurveFile:
    """`<path>.jsonl` grows by a line a step; `<path>.csv` is rewritten beside it for DVC, spreadsheets and plots."""

    path: Path  # without suffix

    def rows(self) -> list[dict[str, float]]:
        source = self.path.with_suffix(".jsonl")
        return [row for _, row in read_jsonl(source)] if source.is_file() else []

    def keep_until(self, step: int) -> None:
        """Drop rows after `step`: work that a resumed run will do again."""
        self._write([row for row in self.rows() if row["step"] <= step])

    def record(self, step: int, values: Mapping[str, float]) -> None:
        row = {
            "step": step,
            **{name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()},
        }
        self._write([*(other for other in self.rows() if other["step"] != step), row])  # type: ignore[list-item]

    def _write(self, rows: list[dict[str, float]]) -> None:
        write_text_atomically(self.path.with_suffix(".jsonl"), "".join(json.dumps(row) + "\n" for row in rows))
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text_atomically(self.path.with_suffix(".csv"), text.getvalue())
