"""The paper run as DVC sees it: what it consists of, and what runs again after which change."""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_graph import POLICIES, repro, set_number

from rlver.components.domain.files import BadFile
from rlver.components.settings.settings import SettingsError
from rlver.tasks.graph import dvc, selection
from rlver.tasks.graph.estimates import refuse_impossible
from rlver.tasks.stages.paper_report import read_runs
from rlver.tasks.studies.paper.material import CURRICULUM, PaperKind
from rlver.tasks.tracking import records

PAPER = "paper/dvc.yaml:"


def test_the_table_holds_every_variant_and_three_seeds_of_each(repository_root: Path) -> None:
    runs = read_runs(repository_root / "paper" / "runs.yaml", repository_root / "params.yaml")
    assert [run.name for run in runs[:2]] == ["base-direct", "base-think"]
    seeds: dict[PaperKind, list[int]] = {}
    for run in runs[2:]:
        seeds.setdefault(run.kind, []).append(run.seed)
    matrix = {PaperKind(a, thinking, user) for a in ("ppo", "grpo") for thinking in (True, False) for user in ("vanilla", "challenging")}
    curricula = {PaperKind(algorithm, True, CURRICULUM) for algorithm in ("ppo", "grpo")}
    assert set(seeds) == matrix | curricula
    assert {kind: sorted(found) for kind, found in seeds.items()} == {kind: [7, 8, 9] for kind in seeds}, "nothing is decided on one seed"


def test_a_name_says_the_seed_and_a_base_has_the_prompt_of_who_is_compared_with_it(repository_root: Path) -> None:
    runs = {run.name: run for run in read_runs(repository_root / "paper" / "runs.yaml", repository_root / "params.yaml")}
    for run in runs.values():
        assert run.is_base or run.name.endswith(f"-s{run.seed}")
        assert runs[run.base].is_base and runs[run.base].kind.thinking == run.kind.thinking
    assert runs["grpo-think-s7"].logs == Path("logs/grpo-think"), "trained once, by the root pipeline"
    assert runs["ppo-think-s8"].logs == Path("paper/logs/ppo-think-s8")


def test_a_policy_of_the_root_pipeline_under_another_seed_is_refused(repository_root: Path, tmp_path: Path) -> None:
    shutil.copytree(repository_root / "params", tmp_path / "params")
    shutil.copy(repository_root / "params.yaml", tmp_path)
    set_number(tmp_path / "params.yaml", "seed", 11)
    with pytest.raises(BadFile, match=r"grpo-think-s7 was trained with seed 11 of params.yaml, not 7"):
        read_runs(repository_root / "paper" / "runs.yaml", tmp_path / "params.yaml")


def test_the_plan_for_all_variants_is_the_root_first_and_every_policy_once(repository_root: Path, plan: list[dvc.Stage]) -> None:
    root_plan = dvc.plan(repository_root)
    steps = [step for step in plan if step.pipeline not in selection.BY_NAME]
    assert steps[: len(root_plan)] == root_plan and steps[-1].name == f"{PAPER}paper_report"
    paper = steps[len(root_plan) :]
    assert all(step.name.startswith(PAPER) for step in paper)
    runs = {run.name for run in read_runs(repository_root / "paper" / "runs.yaml", repository_root / "params.yaml")}
    of_group = {group: [step.variant for step in paper if step.group == group] for group in ("train", "converse", "score", "benchmark")}
    assert set(of_group["train"]) == runs - {"base-think", "base-direct", "grpo-think-s7"}
    for group in ("converse", "score", "benchmark"):
        assert sorted(name for name in of_group[group] if name) == sorted(runs)
    assert steps[-1].needs >= {step.name for step in paper if step.group in ("score", "benchmark")}
    chosen = selection.select(steps, None, [selection.ALL])
    assert chosen == steps


def test_one_policy_brings_what_it_needs_from_both_pipelines(plan: list[dvc.Stage]) -> None:
    assert [step.name for step in selection.select(plan, None, ["grpo-think-s7"])] == [
        "personas", "base", "train@grpo-think",
        *(f"{PAPER}{name}" for name in (
            "converse@base-think", "converse@grpo-think-s7", "score@grpo-think-s7", "benchmark@grpo-think-s7",
        )),
    ]  # fmt: skip
    assert {step.variant for step in selection.select(plan, ["train"], [selection.ALL])} >= {"grpo-think", "ppo-think-s9"}


@pytest.fixture(scope="module")
def finished(root_has_run: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper") / "project"
    shutil.copytree(root_has_run[0], root)
    assert PAPER not in root_has_run[1], "plain `dvc repro` is the root's pipeline alone"
    assert {name.partition(":")[0] for name in dvc.changed(root, ())} == {"paper/dvc.yaml"}
    said = repro(root, "dvc.yaml", "paper/dvc.yaml")
    assert len(re.findall("Running stage", said)) == 1 + 3 * len(POLICIES) + 1
    assert dvc.changed(root, ()) == {}
    return root


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "value", "groups"),
    [
        ("train.steps", 71, {"train"}),
        ("evaluation.bootstrap_samples", 9999, {"converse", "score", "paper_report"}),
        ("benchmark.margin", 0.06, {"benchmark", "paper_report"}),
        ("seed", 8, {"score", "benchmark", "paper_report"}),
        ("tracking.log_models", "reference", set()),
    ],
)
def test_a_changed_number_concerns_exactly_the_stages_that_list_it(finished: Path, key: str, value: Any, groups: set[str]) -> None:
    params = finished / "params.yaml"
    before = params.read_text()
    try:
        set_number(params, key, value)
        assert {name.partition(":")[2].partition("@")[0] for name in dvc.changed(finished, ["paper/dvc.yaml"])} == groups
    finally:
        params.write_text(before)


def test_another_seed_of_one_policy_concerns_that_policy_alone(finished: Path) -> None:
    table = finished / "paper" / "runs.yaml"
    before = table.read_text()
    try:
        set_number(table, "trained.grpo-think-s8.seed", 88)  # the same row under compared is an alias
        assert set(dvc.changed(finished, ["paper/dvc.yaml"])) == {
            f"{PAPER}{name}" for name in ("train@grpo-think-s8", "converse@grpo-think-s8", "paper_report")
        }
    finally:
        table.write_text(before)


def test_a_change_of_the_evaluation_trains_and_talks_nothing_again(finished: Path) -> None:
    code = finished / "components" / "scoring" / "code.py"
    before = code.read_text()
    try:
        code.write_text("# changed\n")
        groups = {name.rpartition(":")[2].partition("@")[0] for name in dvc.changed(finished, ())}
        assert groups == {"score", "report", "paper_report"}
    finally:
        code.write_text(before)


@pytest.mark.long
def test_the_report_can_be_made_of_what_is_there(finished: Path) -> None:
    shutil.rmtree(finished / "paper" / "transcripts" / "grpo-think-s8")
    try:
        assert dvc.reproduce(finished, f"{PAPER}paper_report", lambda _: None) == "ran"
    finally:
        repro(finished, "dvc.yaml", "paper/dvc.yaml")
    assert dvc.changed(finished, ()) == {}


def test_the_record_of_a_stage_of_the_paper_run(finished: Path) -> None:
    lock = dvc.locked(finished)
    record = records.read(finished, f"{PAPER}train@grpo-think-s8", lock)
    assert record.variant == "grpo-think-s8" and [file.name for file in record.models] == ["paper/models/grpo-think-s8"]
    assert record.parameters["train.algorithm"] == "grpo"
    for user in ("vanilla", "challenging"):
        (finished / "paper" / "metrics" / "grpo-think-s8" / f"{user}.json").write_text(f'{{"emotion_mean": {len(user)}}}')
    scored = records.read(finished, f"{PAPER}score@grpo-think-s8", lock)
    assert scored.metrics == {"vanilla/emotion_mean": 7.0, "challenging/emotion_mean": 11.0}
    assert {file.name for file in scored.models_read} == {"paper/models/grpo-think-s8", "models/base"}


def test_a_policy_is_talked_with_scored_and_benchmarked_before_the_next_one_is_trained(plan: list[dvc.Stage]) -> None:
    from rlver.flows.walk import first_of

    for pipeline in ("paper/dvc.yaml", "recipes/dvc.yaml"):
        waiting = [step for step in plan if step.pipeline in (dvc.PIPELINE, pipeline)]
        order: list[str] = []
        while step := first_of(waiting, {one.name for one in waiting}):
            waiting.remove(step)
            order.append(step.name.rpartition(":")[2])
        trained = [name.partition("@")[2] for name in order if name.startswith("train@") and f"benchmark@{name[6:]}" in order]
        assert len(trained) > 10 and not waiting
        for policy, following in itertools.pairwise(trained):
            between = order[order.index(f"train@{policy}") : order.index(f"train@{following}")]
            assert {f"converse@{policy}", f"score@{policy}", f"benchmark@{policy}"} <= set(between), (policy, between)


def test_an_overlay_that_extends_another_is_run_where_both_are_watched(finished: Path) -> None:
    step = dvc.Stage(
        "train@mine", frozenset(), ("params.yaml", "params/mine.yaml"), command="python -m rlver.tasks.stages.score --variant mine"
    )
    mine = finished / "params" / "mine.yaml"
    mine.write_text("extends: grpo-think\npolicy: {temperature: 0.9}\n")
    try:
        with pytest.raises(SettingsError, match=r"mine.yaml extends params/grpo-think.yaml, which train@mine does not watch: name it in"):
            refuse_impossible(finished, [step])
        refuse_impossible(finished, [replace(step, reads=(*step.reads, "params/grpo-think.yaml"))])
        refuse_impossible(finished, [replace(step, command="python mine.py --variant of-my-own")])
    finally:
        mine.unlink()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("train.group_size", 1, "params.yaml with params/grpo-think.yaml: train: .* so group_size must be at least 2"),
        ("train.rows_per_forward", 5, "must be divisible by rows_per_forward"),
        ("policy.temperature", 0, "policy.temperature is 0: a policy that always says the same learns nothing"),
        ("policy.top_p", 0.9, "policy.top_p is 0.9: .* sampled with one distribution and trained with another"),
        ("personas.train", 39, "leaves 7 to learn from, fewer than train.personas_per_step = 8"),
    ],
)
def test_settings_that_cannot_train_are_refused_before_any_stage_runs(finished: Path, key: str, value: Any, message: str) -> None:
    params = finished / "params.yaml"
    before = params.read_text()
    try:
        set_number(params, key, value)
        steps = [step for step in dvc.plan(finished) if step.name.startswith("train@")]
        with pytest.raises(SettingsError, match=message):
            refuse_impossible(finished, steps)
    finally:
        params.write_text(before)
    refuse_impossible(finished, steps)


OTHER_USERS = r"score@grpo-think: the users of converse@grpo-think, or their rules, are not those of converse@base"


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("simulator: {appraiser: heard, speaker: talking}", OTHER_USERS),
        ("simulator: {difficulty: challenging}", OTHER_USERS),
        ("simulator: {max_turns: 6}", OTHER_USERS),
        ("policy: {max_context_tokens: 5120}", r"train@grpo-think: .* is 5120, but the tiny model that it begins with has 1536 positions"),
    ],
)
def test_an_overlay_that_cannot_be_compared_is_refused_before_it_is_trained(finished: Path, overlay: str, message: str) -> None:
    """What it is compared with is up to date: only its own stages would run."""
    path, plan = finished / "params" / "grpo-think.yaml", dvc.plan(finished)
    before, own = path.read_text(), [step for step in plan if step.variant == "grpo-think"]
    try:
        path.write_text(f"{overlay}\n")
        with pytest.raises(SettingsError, match=message):
            refuse_impossible(finished, own, plan)
    finally:
        path.write_text(before)
    everything = dvc.plan(finished, all_pipelines=True)
    refuse_impossible(finished, everything, everything)


def test_both_users_may_be_others_and_a_command_of_ones_own_is_not_looked_into(finished: Path) -> None:
    steps = {step.name: step for step in dvc.plan(finished)}
    score, converse, base = steps["score@grpo-think"], steps["converse@grpo-think"], steps["converse@base"]
    challenging = replace(converse, command=f"{converse.command} --difficulty challenging")
    with pytest.raises(SettingsError, match=OTHER_USERS):
        refuse_impossible(finished, [score], [challenging, base])
    refuse_impossible(finished, [score], [challenging, replace(base, command=f"{base.command} --difficulty challenging")])
    refuse_impossible(finished, [score], [challenging, replace(base, command="python mine.py --variant of-my-own")])
