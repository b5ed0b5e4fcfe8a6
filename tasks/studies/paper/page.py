"""The page of the paper run and the file beside it, from material alone: no clock, no machine.

The figures of the paper run: how every policy learned, and which dialogue acts it came to use.
"""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup
from matplotlib.lines import Line2D

from rlver.components.domain.files import write_text_atomically
from rlver.components.report import ink, wording
from rlver.components.report import page as headline
from rlver.components.report.curves import emotion_axis
from rlver.components.report.material import known_shapes
from rlver.components.report.page import asset, environment
from rlver.components.report.panels.needs import map_panel
from rlver.components.report.panels.panel import ReportRun
from rlver.components.report.tables import with_ends
from rlver.components.report.wording import SOURCE, TABLE_1, TABLE_3
from rlver.components.scoring.acts import frequencies
from rlver.components.scoring.crossed import EQUIVALENT
from rlver.tasks.studies.paper import tables
from rlver.tasks.studies.paper.contrasts import RISE_EQUIVALENT, FindingOutcome, findings
from rlver.tasks.studies.paper.material import USERS, PaperPolicy, PaperRun

_TONES = {
    FindingOutcome.REAPPEARS: "pass",
    FindingOutcome.OPPOSITE: "fail",
    FindingOutcome.EQUIVALENT: "pass",
    FindingOutcome.UNKNOWN: "inconclusive",
    FindingOutcome.NOT_MEASURED: "none",
}


@known_shapes()
def write_paper_report(paper: PaperRun, run: ReportRun, samples: int, out: Path) -> None:
    """Write index.html and results.md into `out`; `samples` are those of the bootstrap."""
    found, seeded = findings(paper), tables.seed_table(paper, samples, run.seed)
    drawn = [figure for draw in (learning_curves, strategy_profile) if (figure := draw(paper)) is not None]
    page = environment(Path(__file__).parent).get_template("paper.html.j2").render(
        paper=paper,
        users=USERS,
        rows={user: tables.policy_table(paper, user).lines() for user in USERS},
        seeded=seeded.lines(),
        quantities=tables.SEEDED,
        middle=tables.MIDDLE,
        with_ends=with_ends,
        colours=colours(paper),
        findings=found,
        margin=wording.number(EQUIVALENT),
        rise_margin=wording.number(RISE_EQUIVALENT),
        tally=tables.tally(found),
        missing=tables.missing(paper),
        estimate=tables.estimate_in_words,
        tones=_TONES,
        ability=tables.ability_rows(paper, run.margin),
        tasks=tables.tasks_in_words,
        table_1=TABLE_1,
        table_3=TABLE_3,
        source=SOURCE,
        figures={one.name: Markup(ink.svg(one.figure, one.name, one.description)) for one in drawn},
        statement=headline.statement(run),
        style=Markup(asset("style.css")),
    )  # fmt: skip
    write_text_atomically(out / "results.md", tables.results_markdown(paper, found, seeded, run.margin))
    write_text_atomically(out / "index.html", page)


_MOST_ACTS = 14  # those used most


def learning_curves(paper: PaperRun) -> ink.Drawn | None:
    """Held-out emotion over training steps: a panel for each kind of training user, a colour for algorithm and prompt, a line a seed."""
    learned = [policy for policy in paper.policies if policy.held_out and "emotion_mean" in policy.held_out.columns]
    if not learned:
        return None
    users, recipes = list(dict.fromkeys(policy.run.kind.users or "" for policy in learned)), _recipes(paper)
    named: dict[str, Line2D] = {}
    with ink.drawing(ink.WIDTH, 3.4) as figure:
        panels = figure.subplots(1, len(users), squeeze=False, sharex=True, sharey=True).flat
        for axes, trained_with in zip(panels, users, strict=True):
            emotion_axis(axes)
            axes.set_title(f"Trained with: {trained_with}")
            axes.set_xlabel("Training step")
            for policy in (one for one in learned if one.run.kind.users == trained_with):
                assert policy.held_out is not None
                recipe = policy.run.kind.recipe
                (line,) = axes.plot(
                    policy.held_out.steps,
                    policy.held_out.columns["emotion_mean"],
                    **ink.series_style(1 + recipes.index(recipe)),
                    linewidth=1.6,
                    marker="o",
                    markersize=3,
                )
                named.setdefault(recipe, line)
        panels[0].set_ylabel("Mean final emotion, held out")
        figure.legend([named[recipe] for recipe in sorted(named)], sorted(named), loc="outside upper left", ncols=6, handlelength=1.8)
    return ink.Drawn("paper-learning", figure, "Mean final emotion of held-out personas over training steps, for every policy")


def strategy_profile(paper: PaperRun) -> ink.Drawn | None:
    """Policy by dialogue act: the share of replies with it, with the vanilla user. The fuller a cell, the higher."""
    user = USERS[0]
    met = {policy.run.name: policy.tested[user].dialogues for policy in paper.policies if user in policy.tested}
    profiles = [(name, frequencies(one for one in held if one.emotion_final is not None)) for name, held in met.items()]
    summed = {act: sum(profile.get(act, 0.0) for _, profile in profiles) for _, profile in profiles for act in profile}
    acts = sorted(summed, key=lambda act: (-summed[act], act))[:_MOST_ACTS]
    if not acts:
        return None
    with ink.drawing(ink.WIDTH, 0.75 + 0.34 * len(profiles)) as figure:
        cells = [[profile.get(act, 0.0) for act in acts] for _, profile in profiles]
        map_panel(figure.subplots(), [name for name, _ in profiles], acts, cells, 1.0, "{:.0%}")
    return ink.Drawn("paper-strategies", figure, "Share of replies with each dialogue act, for every policy with the vanilla user")


def _recipes(paper: PaperRun) -> list[str]:
    """Those of the trained policies, in the order of their colours."""
    return sorted({policy.run.kind.recipe for policy in paper.policies if not policy.run.is_base})


def colours(paper: PaperRun) -> dict[str, str]:
    """The page's colour of every policy, the same as in the figure of learning curves."""
    recipes = _recipes(paper)

    def position(policy: PaperPolicy) -> int:
        return 0 if policy.run.is_base else 1 + recipes.index(policy.run.kind.recipe)

    return {policy.run.name: f"var(--{ink.series_variable(position(policy))})" for policy in paper.policies}
