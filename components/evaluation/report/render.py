"""The page and the files beside it, from material. Everything is a function of its arguments: no clock, no machine, no order of a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from components.evaluation.report import figures, headline, ink, selection, summary, tables, views, wording
from components.evaluation.report.embedding import embed
from components.evaluation.report.loading import Material
from components.evaluation.report.published import SOURCE
from components.files import write_bytes_atomically, write_text_atomically

MOST_DIALOGUE_BYTES = 10_000_000  # of embedded dialogues; the page stays under 15 MB
_BLANK_EVIDENCE = views.EvidenceView(step="", what="", span=None, points="", tone="flat")
_BLANK_TURN = views.TurnView(
    user="", cue=None, think=None, think_note="", reply="", reply_note="", chip=None, tone="flat", emotion="", content="", target="",
    activity="", feeling="", evidence=(),
)  # fmt: skip
_BLANK_DIALOGUE = views.DialogueView(
    variant="", dialogue_id="", persona="", need="", outcome="", final="", level="0", ending="", failure=None, path="", turns=()
)


@dataclass(frozen=True)
class Run:
    """What the page says of the run that the material does not know."""

    seed: int
    margin: float  # of the non-inferiority comparison, in the unit of each task's metric
    model: str | None  # the base model's name; None for the tiny policy built here


def write_report(material: Material, run: Run, out: Path) -> None:
    """Write index.html, results.md, results.csv and plots/ into `out`; plots of an earlier run that no longer apply are removed."""
    drawn = [one for draw in figures.FIGURES.values() if (one := draw(material)) is not None]
    drawings = {one.name: ink.svg(one.figure, one.name, one.description) for one in drawn}
    for name in figures.FIGURES.keys() - drawings.keys():
        for ending in ("svg", "png"):
            (out / "plots" / f"{name}.{ending}").unlink(missing_ok=True)
    for one in drawn:
        write_text_atomically(out / "plots" / f"{one.name}.svg", drawings[one.name])
        write_bytes_atomically(out / "plots" / f"{one.name}.png", ink.png(one.figure))
    write_text_atomically(out / "results.csv", summary.results_csv(material))
    write_text_atomically(out / "results.md", summary.results_markdown(material, run.margin))
    write_text_atomically(out / "index.html", page(material, run, drawings))


def page(material: Material, run: Run, drawings: Mapping[str, str]) -> str:
    """The page as one HTML text; `drawings` are finished SVG elements by figure name."""
    shown = [views.dialogue_view(variant.name, dialogue) for variant in material.variants for dialogue in variant.dialogues]
    class_names = tables.group_names(material, "by_class")
    measured = tables.measured_rows(material)
    return environment().get_template("page.html.j2").render(
        names=[variant.name for variant in material.variants],
        colours={v.name: f"var(--{ink.series_variable(position)})" for position, v in enumerate(material.variants)},
        headline=headline.headline(material),
        statement=headline.statement(run.model),
        facts=headline.facts(material, run.seed, run.model),
        measured=measured,
        unscored=[row.name for row in measured if row.emotion_mean is None],
        published=tables.published_rows(),
        source=SOURCE,
        figures={name: Markup(drawing) for name, drawing in drawings.items()},  # our own SVG; matplotlib escapes the texts in it
        class_names=class_names,
        classes=_classes(material, class_names) if class_names != ["unknown"] else [],
        endings=_endings(material),
        outcomes=wording.OUTCOMES,
        capabilities=tables.capability_tables(material, run.margin),
        pairs=_pairs(material),
        extremes=_extremes(material),
        embedded=embed(shown, MOST_DIALOGUE_BYTES),
        digests=[(v.name, (v.sentient or {}).get("settings_digest") or wording.DASH, (v.general or {}).get("settings_digest") or wording.DASH) for v in material.variants],
        start=", ".join(str(start) for start in sorted({d.emotion_start for v in material.variants for d in v.dialogues})),
        blank=_BLANK_DIALOGUE,
        blank_turn=_BLANK_TURN,
        blank_evidence=_BLANK_EVIDENCE,
        style=Markup(asset("style.css")),
        script=Markup(asset("page.js")),
    )  # fmt: skip


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
    }
    return templates


def asset(name: str) -> str:
    """The text of a file of the report: its style sheet or its script."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _classes(material: Material, names: Sequence[str]) -> list[tuple[str, list[tuple[Any, Any]]]]:
    def cell(variant: Any, name: str) -> tuple[Any, Any]:
        return (
            tables.group_value(variant, "by_class", name, "emotion_mean"),
            tables.group_value(variant, "by_class", name, "emotion_ci95"),
        )

    return [(variant.name, [cell(variant, name) for name in names]) for variant in material.variants]


def _endings(material: Material) -> list[tuple[str, list[dict[str, Any]]]]:
    counts = [(variant.name, Counter(wording.outcome(dialogue) for dialogue in variant.dialogues)) for variant in material.variants]
    return [(name, [{"outcome": outcome, "count": of[outcome]} for outcome in wording.OUTCOMES]) for name, of in counts]


def _pairs(material: Material) -> list[tuple[str, str, views.DialogueView, views.DialogueView]]:
    base, tuned = material.base, material.featured
    if base is None or tuned is None:
        return []
    return [
        (pair.label, wording.signed(pair.gain, 0), views.dialogue_view(base.name, pair.before), views.dialogue_view(tuned.name, pair.after))
        for pair in selection.same_persona_pairs(base.dialogues, tuned.dialogues)
    ]


def _extremes(material: Material) -> list[tuple[str, list[tuple[str, views.DialogueView]]]]:
    return [
        (v.name, [(label, views.dialogue_view(v.name, dialogue)) for label, dialogue in selection.best_median_worst(v.dialogues)])
        for v in material.variants
    ]
