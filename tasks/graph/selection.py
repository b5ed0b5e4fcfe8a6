"""The part of the plan that was asked for by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from rlver.tasks.graph.dvc import PIPELINE, GraphError, Stage

RECIPES, PRETRAINED, BIGGER = "recipes/dvc.yaml", "pretrained/dvc.yaml", "bigger/dvc.yaml"
BY_NAME = (RECIPES, PRETRAINED, BIGGER)  # whose stages run by name only
MOST_NAMED = 12  # names in an error; the nearest where there are more
ALL = "all"  # in the place of a variant: every stage of every pipeline but those of BY_NAME


def select(steps: Sequence[Stage], only: Iterable[str] | None, variants: Iterable[str] | None) -> list[Stage]:
    """The part of the plan that was asked for, in plan order.

    `only` takes stage names (`train@grpo-think`), also without their pipeline, or the name before the @ (`train`), and selects exactly
    those. `variants` alone selects the stages of those variants and all that they need; together with `only` it narrows it to them and what
    they share. A variant that has the name of a pipeline's folder stands for the whole pipeline, its report included; ALL stands for every
    variant but those of BY_NAME.
    Raises GraphError for an unknown name.
    """
    wanted, of_variants = set(only or ()), set(variants or ())
    if ALL in of_variants and len(of_variants) > 1:
        raise GraphError(f"--variants {ALL} takes no other name beside it; run {', '.join(sorted(of_variants - {ALL}))} on its own")
    if ALL in of_variants:
        of_variants, steps = set(), [step for step in steps if step.pipeline not in BY_NAME]
    hint = "" if variants else "; stages of other pipelines need --variants too"
    by_name = _by_name(steps)
    _must_be_known(wanted, set(by_name), "stage", hint)
    _must_be_known(of_variants, {step.variant for step in steps if step.variant}, "variant")
    named = {step.name for name in wanted for step in by_name[name]}
    chosen = [step for step in steps if not wanted or step.name in named]
    if of_variants:
        whole = {f"{variant}/{PIPELINE}" for variant in of_variants}
        theirs = [step for step in steps if step.variant in of_variants or step.pipeline in whole]
        names, pipelines = set(with_needs(theirs)), {step.pipeline for step in theirs}
        if wanted:  # what they share in their pipelines, such as a report, needs no mention
            shared = [step for step in steps if step.variant is None and (step.name in names or step.pipeline in pipelines)]
            names = {step.name for step in (*theirs, *shared)}
        chosen = [step for step in chosen if step.name in names]
    if not chosen:
        raise GraphError(
            f"no stage of {', '.join(sorted(wanted))} belongs to {', '.join(sorted(of_variants))}; leave out --only or the variant"
        )
    return chosen


def _by_name(steps: Sequence[Stage]) -> dict[str, list[Stage]]:
    """What a name stands for: a stage, those of a group in any pipeline, or, where it is neither, those of that name in another pipeline."""
    found: dict[str, list[Stage]] = defaultdict(list)
    known = {name for step in steps for name in (step.name, step.group)}
    for step in steps:
        for name in {step.name, step.group} | ({step.name.rpartition(":")[2]} - known):
            found[name].append(step)
    return found


def with_needs(steps: Iterable[Stage]) -> list[str]:
    """The names of these stages and of what they need."""
    return sorted({name for step in steps for name in (step.name, *step.needs)})


def _must_be_known(names: set[str], known: set[str], what: str, hint: str = "") -> None:
    if unknown := sorted(names - known):
        near = get_close_matches(unknown[0], known, MOST_NAMED)
        named = sorted(known) if len(known) <= MOST_NAMED else near or sorted(known)[:MOST_NAMED]
        others = f" and {len(known) - len(named)} more" if len(named) < len(known) else ""
        raise GraphError(f"unknown {what} {', '.join(unknown)}; dvc.yaml has {', '.join(named)}{others}{hint}")
