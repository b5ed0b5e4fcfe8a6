"""A value and its interval as a terminal shows them: 12.3 [10.1, 14.5]; and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rlver.components.scoring import intervals
from rlver.components.scoring.statistics import Estimated


def shown(estimated: Estimated | None, form: str = ".2f", none: str = "-") -> str:
    """The value and both ends in one `form`; `none` where nothing was estimated."""
    return none if estimated is None else f"{estimated.value:{form}} {in_brackets(estimated.ci95, form)}"


def in_brackets(ends: Any, form: str = ".2f") -> str:
    """An interval, or what stands for one in a JSON file."""
    low, high = intervals.from_json(ends)
    return f"[{low:{form}}, {high:{form}}]"


def aligned(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table whose columns are as wide as their widest cell, two spaces apart."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
