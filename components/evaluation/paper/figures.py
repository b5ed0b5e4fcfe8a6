"""The figures of the paper run: how every policy learned, and which dialogue acts it came to use."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.lines import Line2D

from components.evaluation.paper.material import PaperRun, Policy
from components.evaluation.paper.runs import USERS
from components.evaluation.report import ink
from components.evaluation.report.need_figures import map_panel
from components.evaluation.report.trajectories import emotion_axis
from components.evaluation.report.wording import readable
from components.evaluation.strategies import frequencies

_MOST_ACTS = 14


def learning_curves(paper: PaperRun) -> ink.Drawn | None:
    """Held-out emotion over training steps: a panel for each kind of training user, a colour for algorithm and prompt, a line a seed."""
    learned = [policy for policy in paper.policies if policy.held_out and "emotion_mean" in policy.held_out.columns]
    if not learned:
        return None
    users = list(dict.fromkeys(policy.run.kind.users or "" for policy in learned))
    recipes = sorted({policy.run.kind.recipe for policy in paper.policies if not policy.run.is_base})
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
    profiles = [(policy.run.name, frequencies(policy.tested[user].dialogues)) for policy in paper.policies if user in policy.tested]
    acts = _most_used([profile for _, profile in profiles])
    if not acts:
        return None
    with ink.drawing(ink.WIDTH, 0.75 + 0.34 * len(profiles)) as figure:
        axes = figure.subplots()
        map_panel(axes, [[profile.get(act, 0.0) for act in acts] for _, profile in profiles], 1.0, "{:.0%}")
        axes.set_xticks(range(len(acts)), [readable(act).replace(" ", "\n", 1) for act in acts], linespacing=1.15, va="baseline")
        axes.set_yticks(range(len(profiles)), [name for name, _ in profiles])
    return ink.Drawn("paper-strategies", figure, "Share of replies with each dialogue act, for every policy with the vanilla user")


def figures(paper: PaperRun) -> list[ink.Drawn]:
    """All that can be drawn, in the order of the page."""
    return [drawn for draw in (learning_curves, strategy_profile) if (drawn := draw(paper)) is not None]


def _most_used(profiles: Sequence[dict[str, float]]) -> list[str]:
    """Acts by their summed frequency, the most frequent first."""
    acts = {act for profile in profiles for act in profile}
    return sorted(acts, key=lambda act: (-sum(profile.get(act, 0.0) for profile in profiles), act))[:_MOST_ACTS]


def colours(paper: PaperRun) -> dict[str, str]:
    """The page's colour of every policy, the same as in the figure of learning curves."""
    recipes = sorted({policy.run.kind.recipe for policy in paper.policies if not policy.run.is_base})

    def position(policy: Policy) -> int:
        return 0 if policy.run.is_base else 1 + recipes.index(policy.run.kind.recipe)

    return {policy.run.name: f"var(--{ink.series_variable(position(policy))})" for policy in paper.policies}
