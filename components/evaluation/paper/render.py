"""The page of the paper run and the file beside it, from material alone: no clock, no machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from components.evaluation.paper import summary, tables
from components.evaluation.paper.figures import colours, figures
from components.evaluation.paper.findings import Outcome, findings
from components.evaluation.paper.material import PaperRun
from components.evaluation.paper.runs import USERS
from components.evaluation.report import headline, ink
from components.evaluation.report.loading import known_shapes
from components.evaluation.report.panels.panel import Run
from components.evaluation.report.published import SOURCE, TABLE_1, TABLE_3
from components.evaluation.report.render import asset, environment
from components.files import write_text_atomically

_TONES = {Outcome.REAPPEARS: "pass", Outcome.OPPOSITE: "fail", Outcome.INCONCLUSIVE: "inconclusive", Outcome.NOT_MEASURED: "none"}


@dataclass(frozen=True)
class Numbers:
    """What the tables need that the material does not hold."""

    seed: int  # of the bootstrap
    bootstrap_samples: int
    margin: float  # of the non-inferiority comparison
    model: str | None  # the base model's name; None for the tiny policy built here


@known_shapes()
def write_paper_report(paper: PaperRun, numbers: Numbers, out: Path) -> None:
    """Write index.html and results.md into `out`."""
    found = findings(paper, numbers.bootstrap_samples, numbers.seed)
    drawings = {drawn.name: Markup(ink.svg(drawn.figure, drawn.name, drawn.description)) for drawn in figures(paper)}
    page = environment("paper").get_template("paper.html.j2").render(
        paper=paper,
        users=USERS,
        rows={user: tables.policy_rows(paper, user) for user in USERS},
        seeded=tables.seed_rows(paper),
        quantities=tables.SEEDED,
        spread=summary.spread_in_words,
        colours=colours(paper),
        findings=found,
        tally=summary.tally(found),
        missing=summary.missing(paper),
        estimate=summary.estimate_in_words,
        tones=_TONES,
        ability=tables.ability_rows(paper, numbers.margin),
        tasks=summary.tasks_in_words,
        table_1=TABLE_1,
        table_3=TABLE_3,
        source=SOURCE,
        figures=drawings,
        statement=headline.statement(Run(numbers.seed, numbers.margin, numbers.model)),
        style=Markup(asset("style.css")),
    )  # fmt: skip
    write_text_atomically(out / "results.md", summary.results_markdown(paper, found, numbers.margin))
    write_text_atomically(out / "index.html", page)
