"""The page and the files beside it, from material. Everything is a function of its arguments: no clock, no machine, no order of a set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rlver.components.domain.files import BadFile, write_bytes_atomically, write_text_atomically
from rlver.components.report import dialogues as views
from rlver.components.report import ink, wording
from rlver.components.report.curves import learning_curve, training_health, trajectories
from rlver.components.report.ink import Drawn
from rlver.components.report.material import Material, Variant, known_shapes
from rlver.components.report.panels.course import course_curves
from rlver.components.report.panels.listing import with_panels
from rlver.components.report.panels.needs import need_bars, need_map
from rlver.components.report.panels.over_training import appraisers_over_training, portraits_over_training
from rlver.components.report.panels.panel import Panel, ReportRun
from rlver.components.report.tables import Table, as_csv, as_markdown
from rlver.components.scoring import intervals, splits

_SCRIPTS = ("tables.js", "store.js", "dialogue.js")  # before those of the panels


@known_shapes()
def write_report(material: Material, run: ReportRun, out: Path, of_studies: Sequence[Panel] = ()) -> None:
    """Write index.html, results.md, tables/ and plots/ into `out`; what an earlier report left in the two folders is removed.

    `of_studies`: panels besides the report's own. Raises BadFile where the two folders hold files and there is no report beside them.
    """
    _refuse_others_files(out)
    drawn = [one for draw in FIGURES.values() if (one := draw(material)) is not None]
    drawings = {one.name: ink.svg(one.figure, one.name, one.description) for one in drawn}
    tables = all_tables(material, run, of_studies)
    write_text_atomically(out / "results.md", "\n".join(as_markdown(table) for table in tables))  # first: the mark of a report
    for one in drawn:
        write_text_atomically(out / "plots" / f"{one.name}.svg", drawings[one.name])
        write_bytes_atomically(out / "plots" / f"{one.name}.png", ink.png(one.figure))
    _keep_only(out / "plots", {f"{name}.{ending}" for name in drawings for ending in ("svg", "png")})
    names = {table.name: re.sub(r"[^\w.-]", "-", table.name) + ".csv" for table in tables}  # a policy's name is in some, and may be a path
    for table in tables:
        write_text_atomically(out / "tables" / names[table.name], as_csv(table))
    _keep_only(out / "tables", set(names.values()))
    write_text_atomically(out / "index.html", page(material, run, drawings, of_studies))


@known_shapes()
def all_tables(material: Material, run: ReportRun, of_studies: Sequence[Panel] = ()) -> list[Table]:
    """Every table of the page, in its order."""
    return [table for panel in with_panels(of_studies) for table in panel.tables(material, run)]


@known_shapes()
def page(material: Material, run: ReportRun, drawings: Mapping[str, str], of_studies: Sequence[Panel] = ()) -> str:
    """The page as one HTML text; `drawings` are finished SVG elements by figure name."""
    panels = with_panels(of_studies)
    shown = [(panel, found) for panel in panels if (found := panel.values(material, run)) is not None]
    return environment(templates={f"panels/{panel.name}.html.j2": panel.file("html.j2") for panel in panels}).get_template("page.html.j2").render(
        names=[variant.name for variant in material.variants],
        colours=colours(material),
        rounds={variant.name: ink.series_round(number) for number, variant in material.numbered},
        headline=headline(material),
        statement=statement(run),
        facts=facts(material, run),
        panels=[{"name": panel.name, "title": panel.title, "v": found} for panel, found in shown],
        figures={name: Markup(drawing) for name, drawing in drawings.items()},  # our own SVG; matplotlib escapes the texts in it
        style=Markup("\n".join([asset("style.css"), asset("charts.css"), *filter(None, (panel.file("css") for panel in panels))])),
        script=Markup("\n".join([*(asset(name) for name in _SCRIPTS), *filter(None, (panel.file("js") for panel in panels))])),
    )  # fmt: skip


def colours(material: Material) -> dict[str, str]:
    """The page's colour of every variant, the same in every panel and figure."""
    return {variant.name: f"var(--{ink.series_variable(number)})" for number, variant in material.numbered}


def environment(folder: Path = Path(__file__).parent, templates: Mapping[str, str] = MappingProxyType({})) -> Environment:
    """The templates in `folder` and those given by name, with the filters of `wording`."""
    made = Environment(
        loader=ChoiceLoader([DictLoader(templates), FileSystemLoader(folder)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = (wording.number, wording.signed, wording.percent, wording.interval, wording.signed_interval, wording.percent_interval)
    made.filters |= {writing.__name__: writing for writing in (*numbers, wording.readable, views.spark)}
    return made


def asset(name: str) -> str:
    """The text of a file of the report: a style sheet or a script."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _refuse_others_files(out: Path) -> None:
    strangers = sorted(path for name in ("plots", "tables") for path in (out / name).glob("*.*"))
    if strangers and not (out / "results.md").is_file():
        raise BadFile(f"{strangers[0]} is there and no report beside it: a report replaces all of plots/ and tables/; name another folder")


def _keep_only(folder: Path, names: set[str]) -> None:
    for path in folder.glob("*.*"):
        if path.name not in names:
            path.unlink()


class Headline(NamedTuple):
    title: str
    sentence: str


def headline(material: Material) -> Headline:
    """The result in one title and one sentence; an interval that contains 0 is not called a gain or a loss."""
    base, tuned = material.base, material.featured
    scored = base.sentient if base is not None else None
    if tuned is None or tuned.sentient is None:
        if scored is None:
            return Headline("Dialogues with simulated users", "Nothing has been scored yet; the dialogues are below.")
        return Headline(f"The base policy scores {wording.number(scored['emotion_mean'])}", "No trained policy has been scored yet.")
    are_ranked = base is None and sum(one.sentient is not None for one in material.variants) > 1
    met_others = are_ranked and _met_others(material.variants)
    if len(material.variants) > 1 and (len(material.simulators) > 1 or len(_sets(material)) > 1 or met_others):
        return Headline(
            f"{len(material.variants)} policies, several scales",
            "They met different users, or different people. Such scores cannot be compared, so none is called the highest.",
        )
    if are_ranked:
        return _standings(material, tuned)
    mean = wording.number(tuned.sentient["emotion_mean"])
    paired = tuned.sentient.get("paired_to_base")
    if scored is None or not paired:
        return Headline(f"{tuned.name} scores {mean} of 100", "There is no scored base policy to compare it with.")
    low, high = intervals.from_json(paired["ci95"])
    verdict = "The data do not show a difference to the base policy"
    if low > 0 or high < 0:
        side = "above" if low > 0 else "below"
        verdict = f"That is {wording.number(abs(paired['difference']))} points {side} the base policy with the same users"
    trained = [one for one in material.variants if not one.is_base and one.sentient is not None]
    best = f", the best of {len(trained)}" if len(trained) > 1 and not _met_others(trained) else ""
    return Headline(
        f"From {wording.number(scored['emotion_mean'])} to {mean}",
        f"With {tuned.name}{best}, users end a dialogue at an emotion of {mean} out of 100 on average. "
        f"{verdict} (95% interval {wording.signed_interval((low, high))}{_of_some(paired)}).{_weak_base(base)}{_doubt(tuned)}",
    )


def _of_some(paired: Mapping[str, Any]) -> str:
    """Who was not met by both is in no difference."""
    return f"; of the {paired['personas']} users whom both have met" if paired.get("unpaired_personas") else ""


def _weak_base(base: Variant | None) -> str:
    """What is gained over a base that was not taught to its end is not all gained by training."""
    is_weak = base is not None and base.metrics.get("warm_start", {}).get("cut_short")
    return (
        " The base was cut short by base.max_seconds, so it is weaker than it should be, and the trained policy looks better beside it than it is."
        if is_weak
        else ""
    )


def _doubt(variant: Variant) -> str:
    """What the audit has against the score: nobody should read the one without the other."""
    checks = variant.metrics.get("audit", {}).get("checks", ())
    alarms = [wording.readable(check["name"]).lower() for check in checks if check["outcome"] == "alarm"]
    return f" The audit is in alarm ({', '.join(alarms)}): the score may not be earned." if alarms else ""


def _standings(material: Material, first: Variant) -> Headline:
    """Several policies without a base: who stands where, and nothing about differences that nobody tested."""
    scored = [(variant.sentient, variant.name) for variant in material.variants if variant.sentient is not None]
    scores, last = min(scored, key=lambda pair: pair[0]["emotion_mean"])
    assert first.sentient is not None

    def mean(of: Any) -> str:
        return f"{wording.number(of['emotion_mean'])} (95% interval {wording.interval(intervals.from_json(of['emotion_ci95']))})"

    sentence = f"{first.name} leaves its users at {mean(first.sentient)} of 100, the highest mean; {last} at {mean(scores)}, the lowest."
    return Headline(f"{len(material.variants)} policies, one scale", sentence)


def statement(run: ReportRun) -> str:
    """What the reader must not take the numbers for."""
    if run.is_bare:
        return "Made from transcripts alone. Scores depend on the simulated user: compare them only with scores given by the same one."
    if run.model is not None:
        return f"The policies start from {run.model}. Scores depend on the simulated user: compare them only with scores given by the same one."
    return (
        "The tiny world is not a chatbot. Its policy is a model of a million parameters, made from scratch in minutes; it knows a small "
        "scripted world and nothing else. It shows that the training works and in which shape. Published rows stand beside it for that "
        "shape only: they come from another model and another user."
    )


def _sets(material: Material) -> dict[str, int]:
    return splits.persona_splits(dialogue for variant in material.variants for dialogue in variant.dialogues)


def _met_others(variants: Sequence[Variant]) -> bool:
    """Whether the score of one is also of people whom another one was never put before. Who was, and failed, was put before them."""
    scored = [variant.dialogues for variant in variants if variant.sentient is not None]
    people = {one.persona_id for dialogues in scored for one in dialogues if one.emotion_final is not None}
    return any(people - {one.persona_id for one in dialogues} for dialogues in scored)


def facts(material: Material, run: ReportRun) -> list[tuple[str, str]]:
    """Name and value of what identifies the run."""
    personas = {dialogue.persona_id for variant in material.variants for dialogue in variant.dialogues}
    dialogues = sum(len(variant.dialogues) for variant in material.variants)
    simulators = "; ".join(f"{tag.kind}, {tag.difficulty}, version {tag.version}" for tag in material.simulators)
    digests = sorted({str(v.sentient["settings_digest"]) for v in material.variants if v.sentient and v.sentient.get("settings_digest")})
    return [
        ("Variants", ", ".join(variant.name for variant in material.variants)),
        *([] if run.is_bare else [("Base model", run.model or "tiny policy, from scratch")]),
        ("Simulated user", simulators),
        ("Dialogues", f"{dialogues} with {len(personas)} users"),
        ("Personas", splits.said(_sets(material))),
        ("Seed of the bootstrap" if run.is_bare else "Seed", str(run.seed)),
        *([("Settings digest", ", ".join(digests) or wording.DASH)] if not run.is_bare else []),
    ]


# By file name, in the order of the page; None: there is nothing to draw.
FIGURES: dict[str, Callable[[Material], Drawn | None]] = {
    "need-map": need_map,
    "need-bars": need_bars,
    "trajectories": trajectories,
    "success-and-failure": course_curves,
    "learning-curve": learning_curve,
    "training-health": training_health,
    **{
        name: partial(portraits_over_training, name=name)
        for name in ("acts-over-training", "changes-over-training", "habits-over-training")
    },
    "appraisers-over-training": appraisers_over_training,
}
