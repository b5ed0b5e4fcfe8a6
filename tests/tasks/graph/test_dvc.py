"""DVC's plan, what changed, and one stage at a time, on a real small project."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_graph import repro, set_number
from ruamel.yaml import YAML

from rlver.tasks.graph import dvc
from rlver.tasks.graph.selection import select


def nothing(_: str) -> None:
    return None


def personas_are_there(root: Path) -> None:
    (root / "data").mkdir()
    (root / "data" / "personas.txt").write_text("personas\n")


def ran(root: Path) -> list[str]:
    log = root / "ran.log"
    return log.read_text().split() if log.exists() else []


@pytest.mark.long
def test_the_plan_is_the_order_in_which_dvc_itself_runs(toy: Path) -> None:
    said = repro(toy)
    assert (
        [step.name for step in dvc.plan(toy)] == re.findall(r"Running stage '(.+)'", said) == ["personas", "train@a", "train@b", "report"]
    )
    assert dvc.changed(toy) == {}


def test_a_stage_needs_what_it_reads_directly_or_not(toy: Path) -> None:
    needs = {step.name: set(step.needs) for step in dvc.plan(toy)}
    assert needs == {
        "personas": set(),
        "train@a": {"personas"},
        "train@b": {"personas"},
        "report": {"personas", "train@a", "train@b"},
    }


@pytest.mark.long
def test_a_file_that_was_added_to_dvc_is_no_stage_and_its_change_concerns_its_readers(toy: Path) -> None:
    (toy / "mine.jsonl").write_text("{}\n")
    graph = YAML(typ="safe").load(toy / "dvc.yaml")
    graph["stages"]["personas"].setdefault("deps", []).append("mine.jsonl")
    YAML(typ="safe").dump(graph, toy / "dvc.yaml")
    subprocess.run([sys.executable, "-m", "dvc", "add", "-q", "mine.jsonl"], cwd=toy, check=True)
    plan = dvc.plan(toy, all_pipelines=True)
    assert [step.name for step in plan] == [step.name for step in dvc.plan(toy)] == ["personas", "train@a", "train@b", "report"]
    assert not [need for step in (*plan, *dvc.plan(toy)) for need in step.needs if need.endswith(".dvc")]
    dvc.reproduce(toy, "personas", nothing)
    assert "personas" not in dvc.changed(toy)
    (toy / "mine.jsonl").write_text("{}\n{}\n")
    assert dvc.reproduce(toy, "personas", nothing) == "ran", "without `dvc add` again"


def test_names_do_not_depend_on_the_current_directory(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dvc.plan(toy)[0].name == "personas"
    assert set(dvc.changed(toy)) == {"personas", "train@a", "train@b", "report"}


@pytest.mark.long
def test_one_stage_is_reproduced_and_only_that_one(toy: Path) -> None:
    said: list[str] = []
    assert dvc.reproduce(toy, "personas", said.append) == "ran"
    assert ran(toy) == ["personas"]
    assert "personas says hello" in said
    assert not any("git add" in line or "dvc push" in line for line in said)
    assert "personas" not in dvc.changed(toy)
    assert dvc.reproduce(toy, "personas", nothing) == "unchanged"
    (toy / "data" / "personas.txt").unlink()
    assert dvc.reproduce(toy, "personas", nothing) == "restored"
    assert ran(toy) == ["personas"]


def test_a_changed_number_is_named_as_the_reason_and_the_lock_keeps_the_old_one(toy: Path) -> None:
    assert dvc.locked(toy) == {} and dvc.lock_hash(toy) is None
    dvc.reproduce(toy, "personas", nothing)
    params = toy / "params.yaml"
    params.write_text(params.read_text().replace("seed: 7", "seed: 8"))
    assert dvc.changed(toy, ["personas"]) == {"personas": ["deps params.yaml: seed modified"]}
    stage = dvc.locked(toy)["personas"]
    assert stage.parameters["params.yaml"] == {"seed": 7, "personas": {"train": 3, "imported_train": None}}
    assert stage.outputs == {"data/personas.txt": dvc.md5_of(toy / "data" / "personas.txt")}
    assert re.fullmatch("[0-9a-f]{12}", dvc.lock_hash(toy) or "")
    assert {(step.seed, step.command_variant) for step in dvc.locked(toy).values()} == {(None, None)}
    (toy / "dvc.lock").write_text(
        (toy / "dvc.lock").read_text().replace("personas data/personas.txt", "personas data/personas.txt --seed 8 --variant qwen2.5-0.5b")
    )
    assert dvc.locked(toy)["personas"].seed == 8
    assert dvc.locked(toy)["personas"].command_variant == "qwen2.5-0.5b"
    assert re.fullmatch("[0-9a-f]{12}", stage.digest)


@pytest.mark.parametrize(
    ("code", "reason", "temporary"),
    [
        ("1", "train@a: bad luck", False),
        ("75", "train@a: bad luck", True),
        ("137", "train@a: ended by signal 9 (out of memory?)", True),
        ("130", "train@a: ended by signal 2", False),
    ],
)
def test_a_failure_is_one_line_and_says_whether_a_retry_can_help(toy: Path, code: str, reason: str, temporary: bool) -> None:
    personas_are_there(toy)
    (toy / "fail-train-a").write_text(code)
    with pytest.raises(dvc.StageFailed) as failure:
        dvc.reproduce(toy, "train@a", nothing)
    assert (str(failure.value), failure.value.temporary) == (reason, temporary)


def test_a_missing_input_is_explained_in_dvcs_words(toy: Path) -> None:
    with pytest.raises(dvc.StageFailed, match=r"train@a: failed to reproduce 'train@a': .*data/personas.txt"):
        dvc.reproduce(toy, "train@a", nothing)


def names(chosen: list[dvc.Stage]) -> list[str]:
    return [step.name for step in chosen]


def test_selection_by_stage_group_and_variant(toy: Path) -> None:
    steps = dvc.plan(toy)
    assert names(select(steps, None, None)) == ["personas", "train@a", "train@b", "report"]
    assert names(select(steps, ["train@b"], None)) == ["train@b"]
    assert names(select(steps, ["train"], None)) == ["train@a", "train@b"]
    assert names(select(steps, None, ["a"])) == ["personas", "train@a"], "a variant brings what it needs"
    assert names(select(steps, ["train"], ["a"])) == ["train@a"]
    assert names(select(steps, ["report", "train"], ["a"])) == ["train@a", "report"]


def test_a_stage_of_another_pipeline_needs_no_path(toy: Path) -> None:
    steps = [dvc.Stage(name, frozenset()) for name in ("train@a", "more/dvc.yaml:train@b", "more/dvc.yaml:report")]
    assert names(select(steps, ["train@b"], ["b"])) == ["more/dvc.yaml:train@b"] == names(select(steps, ["more/dvc.yaml:train@b"], ["b"]))
    assert names(select([*steps, dvc.Stage("train@b", frozenset())], ["train@b"], ["b"])) == ["train@b"], "its full name"
    with pytest.raises(dvc.GraphError, match=r"unknown stage train@b; .*; stages of other pipelines need --variants too$"):
        select(steps[:1], ["train@b"], None)


def test_an_unknown_name_is_answered_with_the_known_ones(toy: Path) -> None:
    steps = dvc.plan(toy)
    with pytest.raises(dvc.GraphError, match=r"unknown stage trian; dvc.yaml has personas, report, train, train@a, train@b"):
        select(steps, ["trian"], None)
    with pytest.raises(dvc.GraphError, match=r"unknown variant c; dvc.yaml has a, b"):
        select(steps, None, ["c"])
    many = [dvc.Stage(f"train@{kind}-{number}", frozenset()) for kind in ("ppo", "grpo") for number in range(9)]
    with pytest.raises(dvc.GraphError, match=r"unknown variant grpo-9x; dvc.yaml has (grpo-\d, )*grpo-\d and 9 more$"):
        select(many, None, ["grpo-9x"])
    with pytest.raises(dvc.GraphError, match=r"no stage of train@a belongs to b"):
        select(steps, ["train@a"], ["b"])
    with pytest.raises(dvc.GraphError, match=r"--variants all takes no other name beside it; run a, typo on its own"):
        select(steps, None, ["all", "typo", "a"])


def test_a_broken_graph_is_one_line_with_the_place(toy: Path) -> None:
    (toy / "dvc.yaml").write_text("stages:\n  a: [\n")
    with pytest.raises(dvc.GraphError) as error:
        dvc.plan(toy)
    assert "dvc.yaml" in str(error.value) and "line" in str(error.value) and "\n" not in str(error.value)


def test_a_folder_without_dvc_says_so(tmp_path: Path) -> None:
    with pytest.raises(dvc.GraphError, match="is no DVC project"):
        dvc.plan(tmp_path)


def test_landed_personas_must_be_the_imported_ones(toy: Path) -> None:
    with pytest.raises(dvc.GraphError, match=r"set personas.imported_train in params.yaml \(now: none\)"):
        dvc.require_import(toy, "0" * 32)
    (toy / "new.jsonl").write_text("{}\n")
    params = toy / "params.yaml"
    params.write_text(params.read_text().replace("imported_train: null", "imported_train: new.jsonl"))
    assert dvc.require_import(toy, dvc.md5_of(toy / "new.jsonl")) == toy / "new.jsonl"
    with pytest.raises(dvc.GraphError, match=r"now: new.jsonl"):
        dvc.require_import(toy, "0" * 32)


# The project's own graph. Its second pipeline lies beside it and must stay out of everything.


@pytest.fixture(scope="module")
def own_graph(root_has_run: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own") / "project"
    shutil.copytree(root_has_run[0], root)
    assert dvc.changed(root) == {}
    return root


@pytest.mark.long
def test_an_imported_file_that_changes_concerns_the_personas(own_graph: Path, tmp_path: Path) -> None:
    source = tmp_path / "profiles.jsonl"
    source.write_text("{}\n")

    def tell(*words: str) -> None:
        subprocess.run((sys.executable, "-m", "dvc", words[0], "-q", *words[1:]), cwd=own_graph, check=True)

    tell("import-url", str(source), "imported/")
    assert dvc.changed(own_graph).keys() == {"personas"}
    repro(own_graph)
    tell("update", "imported/profiles.jsonl.dvc")
    assert dvc.changed(own_graph) == {}
    source.write_text("{}\n{}\n")
    tell("update", "imported/profiles.jsonl.dvc")
    assert dvc.changed(own_graph).keys() == {"personas"}
    tell("remove", "--outs", "imported/profiles.jsonl.dvc")
    repro(own_graph)
    assert dvc.changed(own_graph) == {}


@pytest.mark.parametrize(
    ("key", "value", "groups"),
    [
        ("personas.train", 501, {"personas"}),
        ("base.layers", 5, {"base"}),
        ("train.steps", 71, {"train"}),
        ("reward.format_gate", False, {"train"}),
        ("evaluation.bootstrap_samples", 9999, {"converse", "score", "report"}),
        ("benchmark.margin", 0.06, {"benchmark", "report"}),
        ("simulator.max_turns", 9, {"base", "train", "converse", "score", "report"}),
        ("policy.temperature", 0.9, {"base", "train", "converse"}),
        ("seed", 8, {"personas", "base", "train", "converse", "score", "benchmark", "report"}),
        ("tracking.log_models", "reference", set()),
    ],
)
def test_a_changed_number_concerns_exactly_the_stages_that_list_it(own_graph: Path, key: str, value: Any, groups: set[str]) -> None:
    params = own_graph / "params.yaml"
    before = params.read_text()
    try:
        set_number(params, key, value)
        assert {name.partition("@")[0] for name in dvc.changed(own_graph)} == groups
    finally:
        params.write_text(before)


@pytest.mark.long
def test_after_a_changed_number_exactly_its_stages_and_what_reads_them_run_again(own_graph: Path) -> None:
    set_number(own_graph / "params.yaml", "train.steps", 69)
    again = set(re.findall(r"Running stage '(.+)'", repro(own_graph)))
    trained = {step.variant for step in dvc.plan(own_graph) if step.group == "train"}
    assert trained, "dvc.yaml trains no variant"
    assert again == {f"{group}@{variant}" for group in ("train", "converse", "score", "benchmark") for variant in trained} | {"report"}
    assert dvc.changed(own_graph) == {}


def test_an_overlay_concerns_its_own_variant_only(own_graph: Path) -> None:
    variant = next(step.variant for step in dvc.plan(own_graph) if step.group == "train")
    overlay = own_graph / "params" / f"{variant}.yaml"
    before = overlay.read_text()
    try:
        overlay.write_text("policy:\n  thinking: false\n")
        assert {name.partition("@")[2] for name in dvc.changed(own_graph)} == {variant}
    finally:
        overlay.write_text(before)


def test_another_variant_is_one_line_of_the_graph(own_graph: Path) -> None:
    graph = own_graph / "dvc.yaml"
    before = graph.read_text()
    try:
        values = YAML(typ="safe").load(before)
        (variants,) = values["vars"]
        for name in ("trained", "compared"):
            variants[name].append("x")
        with graph.open("w") as file:
            YAML().dump(values, file)
        steps = {step.name: step for step in dvc.plan(own_graph)}
        new = {f"{group}@x" for group in ("train", "converse", "score", "benchmark")}
        assert new == {step.name for step in steps.values() if step.variant == "x"} <= steps["report"].needs
    finally:
        graph.write_text(before)


def test_a_record_of_who_is_at_work_that_is_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DVC writes that file in place too, so another process can meet half of it."""
    record = tmp_path / ".dvc" / "tmp" / "rwlock"
    record.parent.mkdir(parents=True)
    whole = json.dumps({"read": {}, "write": {"data": {"pid": 7, "cmd": "dvc repro"}}})
    record.write_text(whole[:25])
    monkeypatch.setattr(dvc.time, "sleep", lambda seconds: record.write_text(whole))
    assert dvc.holders(tmp_path) == {7}
    record.write_text(whole[:25])
    monkeypatch.setattr(dvc.time, "sleep", lambda seconds: None)
    with pytest.raises(dvc.GraphError, match="rwlock is damaged"):
        dvc.holders(tmp_path)
