"""A table of a report, said once: the page, the Markdown file and the CSV file are three layouts of the same cells.

A number that rests on a sample carries its 95% interval. None is not measured, which is not zero: a dash for readers, empty in CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rlver.components.ability.noninferiority import NotComparable, compare_general
from rlver.components.domain.files import BadFile
from rlver.components.report import wording
from rlver.components.report.material import Material, Variant
from rlver.components.scoring import intervals

Ends = tuple[float, float]


class Form(NamedTuple):
    """How a quantity and the ends of its interval are written for readers."""

    value: Callable[[float | None], str]
    ends: Callable[[Ends | None], str]


NUMBER = Form(wording.number, wording.interval)
SIGNED = Form(wording.signed, wording.signed_interval)
PERCENT = Form(wording.percent, wording.percent_interval)
COUNT = Form(lambda value: wording.number(value, 0), lambda ends: wording.interval(ends, 0))
FINE = Form(lambda value: wording.number(value, 3), lambda ends: wording.interval(ends, 3))
FINE_SIGNED = Form(lambda value: wording.signed(value, 3), lambda ends: wording.signed_interval(ends, 3))


class Column(NamedTuple):
    """`key` heads the CSV, `heading` the rest. `form` None: text. With `ends_key` the CSV gets <ends_key>_low and <ends_key>_high."""

    key: str
    heading: str
    form: Form | None = None
    ends_key: str | None = None


class Cell(NamedTuple):
    """A text or a number, its interval if there is one, and a remark (9 unscorable)."""

    value: str | float | None
    ends: Ends | None = None
    remark: str = ""


class ShownCell(NamedTuple):
    """A cell for readers: its text, what stands beside it in small (the interval, the remark), and by what it is sorted."""

    text: str
    small: str
    sorted_by: str | float | None
    ends: Ends | None
    is_text: bool


@dataclass(frozen=True)
class Table:
    """`name` names the CSV file; the first cell of a row is the row's name."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def lines(self) -> list[list[ShownCell]]:
        """The rows as readers see them."""
        return [[_shown(column, cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]


def ends(value: Any) -> Ends | None:
    """An interval of a metrics file, in either of its forms."""
    return None if value is None else intervals.from_json(value)


def _shown(column: Column, cell: Cell) -> ShownCell:
    if column.form is None:
        return ShownCell(wording.DASH if cell.value is None else str(cell.value), cell.remark, cell.value, None, True)
    assert not isinstance(cell.value, str)
    beside = "; ".join(filter(None, (column.form.ends(cell.ends), cell.remark)))
    return ShownCell(column.form.value(cell.value), beside, cell.value, cell.ends, False)


def as_csv(table: Table) -> str:
    """Full precision, rates in 0..1; an interval takes two columns; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([key for column in table.columns for key in _keys(column)])
    for row in table.rows:
        writer.writerow([value for column, cell in zip(table.columns, row, strict=True) for value in _values(column, cell)])
    return text.getvalue()


def _keys(column: Column) -> list[str]:
    return [column.key, *([f"{column.ends_key}_low", f"{column.ends_key}_high"] if column.ends_key else [])]


def _values(column: Column, cell: Cell) -> list[object]:
    value = "" if cell.value is None else cell.value
    return [value, *((cell.ends or ("", "")) if column.ends_key else ())]


def as_markdown(table: Table) -> str:
    """The title, the note and the rows as readers see them on the page."""
    rows = [[with_ends(shown.text, shown.small) for shown in line] for line in table.lines()]
    head = f"## {table.title}\n\n" + (f"{table.note}\n\n" if table.note else "")
    return head + markdown_table([column.heading for column in table.columns], rows)


def with_ends(value: str, ends: str) -> str:
    """12.3 (10.1 to 14.5), or the value alone."""
    return f"{value} ({ends})" if ends else value


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text; a bar in a cell is escaped."""
    ruler = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join(map(_line, (header, ruler, *rows))) + "\n"


def plain_table(header: Sequence[str], rows: Iterable[Sequence[object]], ruler: str = "") -> str:
    """A Markdown table as a terminal shows it: nothing is aligned unless `ruler` says how, and no line end follows."""
    head = "|" + "".join(f" {cell} |" if cell else " |" for cell in header)
    return "\n".join([head, ruler or "|---" * len(header) + "|", *map(_line, rows)])


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


@dataclass(frozen=True)
class CapabilityTable:
    """One variant against the base. `problem` says why there is no comparison; then there are no rows."""

    variant: str
    outcome: str | None
    is_smoke_test: bool
    rows: Mapping[str, Mapping[str, Any]]
    not_compared: Sequence[str]
    problem: str | None


def capability_tables(material: Material, margin: float) -> list[CapabilityTable]:
    """Every trained variant that was benchmarked against the base; empty when none was."""
    base = material.base
    return [
        capability(variant.name, None if base is None else base.general, variant.general, margin)
        for variant in material.variants
        if not variant.is_base and variant.general is not None
    ]


def capability(name: str, base: Mapping[str, Any] | None, tuned: Mapping[str, Any], margin: float) -> CapabilityTable:
    """One variant against the base. Raises BadFile for metrics that lack what is compared."""
    if base is None:
        return CapabilityTable(name, None, False, {}, (), "the base was not benchmarked, so there is nothing to compare with")
    try:
        compared = compare_general(base, tuned, margin)
    except NotComparable as error:
        return CapabilityTable(name, None, False, {}, (), str(error))
    except (KeyError, TypeError) as error:
        raise BadFile(f"metrics/{name}/general.json or that of the base has no usable {error}; run benchmark again") from error
    return CapabilityTable(name, compared["outcome"], compared["smoke_test"], compared["tasks"], compared["not_compared"], None)


def group_names(material: Material, grouping: str) -> list[str]:
    """All groups (needs or classes) that any variant was scored on; `grouping` is by_need or by_class."""
    return sorted({name for v in material.variants if v.sentient is not None for name in v.sentient.get(grouping, {})})


def group_values(variant: Variant, grouping: str, group: str) -> Mapping[str, Any]:
    """The quantities of one group of one variant; empty where it was not scored."""
    found: Mapping[str, Any] = (variant.sentient or {}).get(grouping, {}).get(group, {})
    return found
