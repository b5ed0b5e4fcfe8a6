"""The page and the files beside it, from material. Everything is a function of its arguments: no clock, no machine, no order of a set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from components.evaluation.report import figures, headline, ink, views, wording
from components.evaluation.report.loading import Material, known_shapes
from components.evaluation.report.panels.listing import PANELS
from components.evaluation.report.panels.panel import Run
from components.evaluation.report.table import Table, as_csv, as_markdown
from components.files import write_bytes_atomically, write_text_atomically

_SCRIPTS = ("tables.js", "store.js", "dialogue.js")  # before those of the panels


@known_shapes()
def write_report(material: Material, run: Run, out: Path) -> None:
    """Write index.html, results.md, tables/ and plots/ into `out`; what an earlier run left in the two folders is removed."""
    drawn = [one for draw in figures.FIGURES.values() if (one := draw(material)) is not None]
    drawings = {one.name: ink.svg(one.figure, one.name, one.description) for one in drawn}
    for one in drawn:
        write_text_atomically(out / "plots" / f"{one.name}.svg", drawings[one.name])
        write_bytes_atomically(out / "plots" / f"{one.name}.png", ink.png(one.figure))
    _keep_only(out / "plots", {f"{name}.{ending}" for name in drawings for ending in ("svg", "png")})
    tables = all_tables(material, run)
    names = {table.name: re.sub(r"[^\w.-]", "-", table.name) + ".csv" for table in tables}  # a policy's name is in some, and may be a path
    for table in tables:
        write_text_atomically(out / "tables" / names[table.name], as_csv(table))
    _keep_only(out / "tables", set(names.values()))
    write_text_atomically(out / "results.md", "\n".join(as_markdown(table) for table in tables))
    write_text_atomically(out / "index.html", page(material, run, drawings))


@known_shapes()
def all_tables(material: Material, run: Run) -> list[Table]:
    """Every table of the page, in its order."""
    return [table for panel in PANELS for table in panel.tables(material, run)]


@known_shapes()
def page(material: Material, run: Run, drawings: Mapping[str, str]) -> str:
    """The page as one HTML text; `drawings` are finished SVG elements by figure name."""
    shown = [(panel, found) for panel in PANELS if (found := panel.values(material, run)) is not None]
    return environment().get_template("page.html.j2").render(
        names=[variant.name for variant in material.variants],
        colours=colours(material),
        rounds={variant.name: ink.series_round(number) for number, variant in material.numbered},
        headline=headline.headline(material),
        statement=headline.statement(run),
        facts=headline.facts(material, run),
        panels=[{"name": panel.name, "title": panel.title, "v": found} for panel, found in shown],
        figures={name: Markup(drawing) for name, drawing in drawings.items()},  # our own SVG; matplotlib escapes the texts in it
        style=Markup("\n".join([asset("style.css"), asset("charts.css"), *_of_panels("css")])),
        script=Markup("\n".join([*(asset(name) for name in _SCRIPTS), *_of_panels("js")])),
    )  # fmt: skip


def colours(material: Material) -> dict[str, str]:
    """The page's colour of every variant, the same in every panel and figure."""
    return {variant.name: f"var(--{ink.series_variable(number)})" for number, variant in material.numbered}


def environment(folder: str = "report") -> Environment:
    """The templates of components/evaluation/<folder>, with the filters of `wording`."""
    templates = Environment(
        loader=PackageLoader("components.evaluation", folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "number": wording.number,
        "signed": wording.signed,
        "percent": wording.percent,
        "interval": wording.interval,
        "signed_interval": wording.signed_interval,
        "percent_interval": wording.percent_interval,
        "readable": wording.readable,
        "spark": views.spark,
    }
    return templates


def asset(name: str) -> str:
    """The text of a file of the report: a style sheet or a script."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _of_panels(ending: str) -> list[str]:
    """The style sheets or the scripts of the panels that have one."""
    folder = files(__package__).joinpath("panels")
    found = (folder.joinpath(f"{panel.name}.{ending}") for panel in PANELS)
    return [file.read_text(encoding="utf-8") for file in found if file.is_file()]


def _keep_only(folder: Path, names: set[str]) -> None:
    for path in folder.glob("*.*"):
        if path.name not in names:
            path.unlink()
