"""What a panel is: a part of the page with a module and a template of the same name.

    panels/<name>.py          PANEL = Panel("<name>", "<Heading>", values, tables)
    panels/<name>.html.j2     the markup; sees `v` (what `values` gave), `colours` by variant, and the macros of parts.html.j2
    panels/<name>.css, .js    if it needs any
    panels/listing.py         one more name, at the place where it stands on the page

The panel of a study lies in the study's room: panel.py, panel.html.j2 and, if it needs any, panel.css and panel.js. It names its package and the
panel that it stands after, and is entered nowhere: the report's stage and command find it (registry.PANELS). What it needs beside the metrics
that its study wrote, it gathers itself.

Anything that lies in metrics/<variant>/<kind>.json is there as `variant.metrics.get("<kind>")`; see `portrait` for an example. Where
`values` gives None there is nothing to show: the panel, its heading and its entry in the navigation are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.report.material import Material
from rlver.components.report.tables import Table
from rlver.components.settings.settings import Settings


@dataclass(frozen=True)
class ReportRun:
    """What the page says of the run that the material does not know."""

    seed: int  # of the run, and of the bootstrap
    margin: float  # of the non-inferiority comparison, in the unit of each task's metric
    model: str | None  # the base model's name; None for the tiny policy built here
    is_bare: bool = False  # made from transcripts alone: nothing is known about the policies but what they said


@dataclass(frozen=True)
class Sources:
    """What a study's panel may read, or compute from, before the page is made."""

    settings: Settings
    personas: Sequence[Persona]  # of the test, and those of the training that the held-out ones are among
    logs: Path | None = None  # the folder of <variant>/train.jsonl
    params: Path | None = None  # the parameter file that the variants' overlays lie beside
    files: Mapping[str, Path] = field(default_factory=dict)  # what a study wrote about several variants, by the name of its panel


def nothing_more(material: Material, _: Sources) -> Material:
    """For a panel that shows what is there."""
    return material


class Panel(NamedTuple):
    """`values` gives what its template needs, None when there is nothing to show; `tables` go into results.md and tables/."""

    name: str
    title: str
    values: Callable[[Material, ReportRun], Mapping[str, Any] | None]
    tables: Callable[[Material, ReportRun], Sequence[Table]]
    after: str = ""  # of a study's panel: the panel that it stands right after; without that one it is the last
    package: str = ""  # of a study's panel: where its files lie
    gather: Callable[[Material, Sources], Material] = nothing_more  # of a study's panel: the material with what it adds

    def file(self, ending: str) -> str:
        """The text of its file of this kind, as html.j2; "" where it has none. Raises BadFile for a study's panel without markup."""
        place = files(self.package) / f"panel.{ending}" if self.package else files(__package__) / f"{self.name}.{ending}"
        if self.package and ending == "html.j2" and not place.is_file():
            raise BadFile(f"{self.package}: panel.html.j2 is not there; a package that is installed needs it among its package data")
        return place.read_text(encoding="utf-8") if place.is_file() else ""


def no_tables(_: Material, __: ReportRun) -> Sequence[Table]:
    """For a panel without any."""
    return ()
