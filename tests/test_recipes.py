"""Recipes: every one is a name made of parts, resolves, is in the graph with exactly its own files, and can be dry-run."""

from __future__ import annotations

import itertools
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlver.components.settings.overlays import overlays_of
from rlver.components.settings.settings import SettingsError, load_settings
from rlver.flows.cli import main
from rlver.tasks.graph import dry_run, dvc, selection
from rlver.tasks.graph.dry_run import Machine
from rlver.tasks.graph.estimates import memory, policy_shape

ROOT = Path(__file__).parents[1]
PARTS = {path.stem for path in (ROOT / "params" / "recipes").glob("*.yaml")} - {"common"}
MODELS, ALGORITHMS = ("qwen1.5b", "qwen7b"), ("ppo", "grpo", "grpo_lora")
REPLIES, USERS, PERSONAS = ("think", "direct"), ("vanilla", "challenging"), ("english", "chinese")
RECIPES = ["-".join(parts) for parts in itertools.product(MODELS, ALGORITHMS, REPLIES, USERS, PERSONAS)]
GPU = Machine("a GPU of 80 GB", 80 * 10**9, 10**15)


def test_all_parts_are_in_a_recipe_and_all_recipes_in_the_graph(plan: list[dvc.Stage]) -> None:
    assert {*MODELS, *ALGORITHMS, *REPLIES, *USERS, *PERSONAS} == PARTS
    trained = [step.variant for step in plan if step.pipeline == selection.RECIPES and step.group == "train"]
    assert sorted(filter(None, trained)) == sorted(RECIPES) and len(RECIPES) == 48


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_what_its_name_says(recipe: str) -> None:
    settings = load_settings(ROOT / "params.yaml", recipe)
    model, algorithm, replies, user, personas = recipe.split("-")
    assert settings.base.kind == "model" and settings.base.model == f"Qwen/Qwen2.5-{model.removeprefix('qwen').upper()}-Instruct"
    train = settings.train
    assert (train.algorithm, train.group_size, train.lora_rank) == {
        "ppo": ("ppo", 1, 0),
        "grpo": ("grpo", 4, 0),
        "grpo_lora": ("grpo", 4, 32),
    }[algorithm]
    assert train.frozen_precision == ("native" if train.lora_rank else "float32")
    assert settings.policy.thinking is (replies == "think") and settings.policy.thoughts == "strip"
    assert train.difficulties == [user] and settings.simulator.difficulty == "vanilla" and settings.simulator.kind == "llm"
    assert (settings.personas.imported_train is None) is (personas == "english")
    assert (train.personas_per_step, train.beta, train.epsilon_high, train.warmup_steps) == (32, 0.0, 0.2, 20)


def test_every_stage_of_a_recipe_watches_exactly_the_files_that_make_its_variant(plan: list[dvc.Stage]) -> None:
    checked = 0
    for step in plan:
        if step.pipeline != selection.RECIPES or step.group in ("personas", "base"):  # those two say which of the values they read
            continue
        files = {f"params/recipes/{part}.yaml" for part in ("common", *str(step.variant).split("-"))}
        assert files == {path for path in step.reads if path.startswith("params/")} - {"params.yaml"}, step.name
        assert f"--variant {step.variant} " in step.command
        checked += 1
    assert checked > 4 * len(RECIPES)


def test_no_recipe_is_part_of_any_other_run(plan: list[dvc.Stage]) -> None:
    assert not [step for step in dvc.plan(ROOT) if step.pipeline == selection.RECIPES], "`rlver run`"
    assert not [step for step in selection.select(plan, None, ["all"]) if step.pipeline == selection.RECIPES], "`rlver run --variants all`"
    others = {need for step in plan if step.pipeline != selection.RECIPES for need in step.needs}
    assert not [need for need in others if need.startswith(selection.RECIPES)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    return tmp_path


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("qwen7b-ppo-grpo", "params/recipes/ppo.yaml and params/recipes/grpo.yaml both set train.algorithm: a recipe takes one part of a kind"),
        ("qwen7b-qwen1.5b", "both set base.kind"),
        ("common", "unknown variant"),
        ("think-think", "unknown variant"),
        ("qwen7b-ppo-thinking", "unknown variant 'qwen7b-ppo-thinking'"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_recipe_is_refused(project: Path, variant: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        load_settings(project / "params.yaml", variant)


def test_the_order_of_parts_means_nothing() -> None:
    one, other = (load_settings(ROOT / "params.yaml", name) for name in ("qwen7b-grpo-think", "think-grpo-qwen7b"))
    assert one == other
    assert list(overlays_of(ROOT / "params", "grpo-think")) == ["params/grpo-think.yaml"], "an overlay of that name comes first"


@pytest.mark.parametrize(("model", "algorithm"), itertools.product(MODELS, ALGORITHMS))
def test_the_page_says_what_each_takes(model: str, algorithm: str) -> None:
    every = [load_settings(ROOT / "params.yaml", f"{model}-{algorithm}-{replies}-vanilla-english") for replies in REPLIES]
    think, direct = (round(sum(memory(one, policy_shape(one, None), on_gpu=True).values()) / 1e9) for one in every)
    page = (ROOT / "docs" / "guides" / "real-models.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `qwen") and f"`{model}-{algorithm}`" in line]
    assert f"| {think} / {direct} GB |" in row
    gpus = [int(number) for number in re.findall(r"\d+", row.split("|")[3])]
    assert max(gpus) >= 1.25 * think and min(gpus) >= 1.25 * direct


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_can_be_dry_run(recipe: str, plan: list[dvc.Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_USER_URL", "https://models.example.org/v1")
    monkeypatch.delenv("RLVER_USER_KEY", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    chosen = selection.select(plan, None, [recipe])
    groups = [step.group for step in chosen]
    assert sorted(groups) == ["base", "benchmark", "converse", "converse_base", "personas", "score", "train"]
    assert [group for group in groups if group in ("base", "train", "converse", "score")] == ["base", "train", "converse", "score"]
    told = dry_run.estimate(ROOT, chosen, {step.name: ["asked for"] for step in chosen}, GPU)
    text = "\n".join(told.lines)
    model, algorithm, _, _, personas = recipe.split("-")
    dialogues = 350 * 32 + 15 * 32 if algorithm == "ppo" else 210 * 32 * 4 + 10 * 32
    assert f"dialogues  {dialogues:,}, " in text and f" {19 * dialogues:,} calls if no answer has to be asked again" in text
    base_is_first = groups.index("converse_base") < groups.index("train")
    assert (
        text.count(f"dialogues  300, with the base{', before training' if base_is_first else ''}\n") == 1 == text.count("dialogues  300\n")
    )
    assert "7.62 billion" in text if model == "qwen7b" else "1.54 billion" in text
    assert "hours      unknown" in text and "money      about" in text
    missing = " ".join(told.missing)
    assert f"Qwen/Qwen2.5-{model.removeprefix('qwen').upper()}-Instruct: no config.json" in missing and "RLVER_USER_KEY" in missing
    assert ("imported/rlver/train.jsonl, which personas.imported_train names" in missing) is (
        personas == "chinese" and not (ROOT / "imported/rlver").exists()
    )
    assert ("memory: " in missing) is (model == "qwen7b" and algorithm != "grpo_lora"), "all weights of 7B do not fit into 80 GB"


@pytest.mark.long
def test_the_command_prints_the_plan_and_says_by_its_status_that_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a dry run asks no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("RLVER_USER_URL", raising=False)
    lock = ROOT / "recipes" / "dvc.lock"
    before = lock.read_bytes() if lock.exists() else None
    assert main(["run", "--dry-run", "--variants", "qwen7b-grpo_lora-think-challenging-chinese"]) == 1
    said = capsys.readouterr()
    assert "7 of 7 stages would run" in said.out and "RLVER_USER_URL" in said.out and said.err == ""
    assert (lock.read_bytes() if lock.exists() else None) == before


@pytest.mark.long
def test_nothing_is_missing_for_the_default_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("params", "components", "tasks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run((sys.executable, "-m", "dvc", "init", "-q", "--no-scm"), cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "train@grpo-think" in said and "scripted: no calls, no money" in said and said.rstrip().endswith("Missing: nothing")
