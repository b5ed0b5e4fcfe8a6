"""How figures are drawn, and turned into files: matplotlib without its global state, the same bytes for the same numbers.

The SVG's colours are named after the page's variables with the light colour as the fallback. So one drawing serves light, dark and
print in the page, and stands alone as a file. Text stays text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 10.4  # inches; the page shows a figure as wide as its text
INK, MUTED, LINE, ACCENT, GOOD, BAD = "#1b222c", "#5c6673", "#d8dde3", "#1f6f78", "#1b7a6e", "#b5473c"
# Safe for the colour-blind; first the base.
SERIES = ("#7d8794", "#154084", "#cc8429", "#1da66f", "#7528d8", "#7c2143", "#67501f", "#d93ec6")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))  # a second round of colours is told apart by these
_VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line", ACCENT: "accent", GOOD: "good", BAD: "bad"} | {
    colour: f"series-{index}" for index, colour in enumerate(SERIES)
}
_STYLE: Any = {  # matplotlib types its keys one by one
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.parse_math": False,  # a variant may be called a$b$
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
    "savefig.facecolor": "white",
}
_FONT = "var(--sans, 'DejaVu Sans', sans-serif)"


class Drawn(NamedTuple):
    """A finished figure, its file name, and what a reader who cannot see it is told."""

    name: str
    figure: Figure
    description: str


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """A figure of `width` x `height` inches in the house style; draw inside the block."""
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


@contextmanager
def small_plots(count: int, columns: int, height: float, shared: bool = False) -> Iterator[tuple[Figure, list[Axes], list[Axes]]]:
    """A figure of `count` plots in rows of `height` inches, `shared`: on the same scales; and the cells of their last row that are left, which
    stay empty."""
    rows = math.ceil(count / columns)
    with drawing(WIDTH, height * rows) as figure:
        cells = list(figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared).flat)
        for axes in cells[count:]:
            axes.set_axis_off()
        yield figure, cells[:count], cells[count:]


def series_style(position: int) -> dict[str, Any]:
    """Colour and dashes of the variant at `position`; grey is the base's, at 0, and comes only once."""
    return {"color": SERIES[_series(position)], "linestyle": DASHES[series_round(position) % len(DASHES)]}


def series_round(position: int) -> int:
    """How often the colours have been gone through before the variant at `position`: what tells it from others of its colour."""
    return (position - 1) // (len(SERIES) - 1) if position else 0


def series_variable(position: int) -> str:
    """The page's variable for the colour of the variant at `position`."""
    return _VARIABLES[SERIES[_series(position)]]


def _series(position: int) -> int:
    return (position - 1) % (len(SERIES) - 1) + 1 if position else 0


def without_grid(axes: Axes, which: str) -> None:
    """Remove the grid lines and the ticks of one axis ("x", "y" or "both")."""
    axes.grid(False, axis=which)  # type: ignore[arg-type]
    axes.tick_params(axis=which, length=0)  # type: ignore[arg-type]


def svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an SVG element; `name` keeps its ids apart from those of other figures in the page."""
    buffer = io.StringIO()
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg ', lambda match: f"<svg {match[1] or ''}", text, count=1)
    text = text.replace("*{stroke-linejoin", f"#{name} *{{stroke-linejoin")
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace("'DejaVu Sans'", _FONT)
    text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _with_short_numbers, text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable}, {colour})")
    title = f'<svg id="{name}" role="img" aria-label="{escape(description)}"'
    return text.replace("<svg", title, 1)


def _with_short_numbers(attribute: re.Match[str]) -> str:
    """Two decimals of a point are enough for any screen, and halve the file."""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])


def png(figure: Figure) -> bytes:
    """The figure as a PNG on white, 144 dots per inch."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="png", dpi=144, metadata={"Software": None})
    return buffer.getvalue()
