"""What a panel is: a part of the page with a module and a template of the same name.

    panels/<name>.py          PANEL = Panel("<name>", "<Heading>", values, tables)
    panels/<name>.html.j2     the markup; sees `v` (what `values` gave), `colours` by variant, and the macros of parts.html.j2
    panels/<name>.css, .js    if it needs any
    panels/listing.py         one more line, at the place where it stands on the page

Anything that lies in metrics/<variant>/<kind>.json is there as `variant.metrics.get("<kind>")`; see `portrait` for an example. Where
`values` gives None there is nothing to show: the panel, its heading and its entry in the navigation are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rlver.components.report.material import Material
from rlver.components.report.tables import Table


@dataclass(frozen=True)
class ReportRun:
    """What the page says of the run that the material does not know."""

    seed: int  # of the run, and of the bootstrap
    margin: float  # of the non-inferiority comparison, in the unit of each task's metric
    model: str | None  # the base model's name; None for the tiny policy built here
    is_bare: bool = False  # made from transcripts alone: nothing is known about the policies but what they said


class Panel(NamedTuple):
    """`values` gives what its template needs, None when there is nothing to show; `tables` go into results.md and tables/."""

    name: str
    title: str
    values: Callable[[Material, ReportRun], Mapping[str, Any] | None]
    tables: Callable[[Material, ReportRun], Sequence[Table]]


def no_tables(_: Material, __: ReportRun) -> Sequence[Table]:
    """For a panel without any."""
    return ()
