"""Model files that lack, break or smuggle something: one line that names it, and never a score."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from broken_models import (
    EMBEDDINGS,
    UP,
    WEIGHTS,
    policy_in,
    with_config,
    with_overflow,
    with_tensors,
    without_a_tensor,
)
from micro import micro_model, micro_tokenizer
from safetensors.torch import load_file, save_file
from small_project import REPOSITORY, make_project

from rlver.components.policy.load import load_policy
from rlver.components.settings.settings import load_settings

INDEX = f"{WEIGHTS}.index.json"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return policy_in(tmp_path / "policy")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project, and the current directory."""
    root = tmp_path / "project"
    root.mkdir()
    make_project(root)
    monkeypatch.chdir(root)
    return root


def sharded(folder: Path, places: Callable[[str], str]) -> None:
    """The weights in two files of which the index says `places` of their names."""
    tensors = load_file(folder / WEIGHTS)
    names = sorted(tensors)
    (folder / WEIGHTS).unlink()
    files = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, held in files.items():
        save_file({name: tensors[name] for name in held}, folder / file, metadata={"format": "pt"})
    weight_map = {name: places(file) for file, held in files.items() for name in held}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def outside(folder: Path) -> None:
    sharded(folder, lambda file: "../elsewhere.safetensors" if file.startswith("b") else file)
    (folder / "b.safetensors").rename(folder.parent / "elsewhere.safetensors")


def pickled_shards(folder: Path) -> None:
    sharded(folder, lambda file: file.replace("b.safetensors", "b.bin"))
    torch.save(load_file(folder / "b.safetensors"), folder / "b.bin")


def more_tokens(folder: Path) -> None:
    tokenizer = micro_tokenizer().__class__.from_pretrained(folder)
    tokenizer.add_tokens([f"word{number}" for number in range(40)])
    tokenizer.save_pretrained(folder)


def adapters(folder: Path) -> None:
    """LoRA adapters in a folder whose weights are somebody else's: transformers follows adapter_config.json to that base."""
    from peft import get_peft_model

    from rlver.components.training.adapters import lora

    base = policy_in(folder.parent / "elsewhere")
    get_peft_model(micro_model(seed=9), lora(2)).save_pretrained(folder)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": str(base)}))


def opens_thoughts(folder: Path) -> Path:
    file = folder / "chat_template.jinja"
    file.write_text(file.read_text() + "<think>\n")
    return folder


def put(name: str, tensor: torch.Tensor) -> Callable[[Path], object]:
    return lambda folder: with_tensors(folder, lambda tensors: tensors.update({name: tensor}))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a tensor is missing": (without_a_tensor, f"{WEIGHTS} lacks {UP}"),
    "the embeddings are missing": (lambda folder: with_tensors(folder, lambda tensors: tensors.pop(EMBEDDINGS)), f"lacks .*{EMBEDDINGS}"),
    "a tensor of another model": (put("score.weight", torch.zeros(3, 32)), f"{WEIGHTS} holds what config.json does not ask for: score.weight"),
    "another shape": (put(UP, torch.zeros(3, 4)), rf"{WEIGHTS} holds in another shape {UP} \(\[3, 4\], not \[96, 32\]\)"),
    "integers": (put(UP, torch.zeros(96, 32, dtype=torch.int8)), f"{WEIGHTS}: the tensor {UP} is I8"),
    "no number": (put(UP, torch.full((96, 32), math.nan)), f"{UP} has numbers that are not finite"),
    "infinite": (put("model.norm.weight", torch.full((32,), -math.inf)), "model.norm.weight has numbers that are not finite"),
    "a second head": (put("lm_head.weight", torch.ones(388, 32)), "ties the head to the embeddings"),
    "fewer layers": (lambda folder: with_config(folder, num_hidden_layers=0, layer_types=[]), "does not ask for"),
    "more layers than anything": (lambda folder: with_config(folder, num_hidden_layers=5000, layer_types=None), "num_hidden_layers is 5000"),
    "another kind of model": (lambda folder: with_config(folder, model_type="llama"), "does not ask for"),
    "another task": (lambda folder: with_config(folder, architectures=["Qwen2ForSequenceClassification"]), "is no Qwen2ForCausalLM"),
    "code for its attention": (lambda folder: with_config(folder, _attn_implementation="evil/kernel"), "code of its own"),
    "code of its own": (
        lambda folder: with_config(folder, model_type="evil", auto_map={"AutoConfig": "evil.Config"}),
        "no model_type 'evil'; code of a model is never run",
    ),
    "quantised": (lambda folder: with_config(folder, quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}), "quantised"),
    "a tokenizer with more tokens": (more_tokens, "the tokenizer's ids go to 427, the model has 388 embeddings"),
    "a chat template without end": (lambda folder: (folder / "chat_template.jinja").write_text("a" * 70_000), "more than 65536 characters"),
    "a chat template that fails": (lambda folder: (folder / "chat_template.jinja").write_text("{{ 1 / 0 }}"), "the chat template does not work"),
    "a chat template that opens the thought": (opens_thoughts, "begins every reply with <think>, so all replies would be malformed; take it out"),
    "shards outside the folder": (outside, "beside it, got '../elsewhere.safetensors'"),
    "pickled shards": (pickled_shards, "beside it, got 'b.bin'"),
    "a shard is missing": (lambda folder: sharded(folder, lambda file: f"no-{file}"), "no-a.safetensors is missing"),
    "adapters of another base": (adapters, "adapters alone are no policy"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_policy_is_one_line_that_says_what_is_wrong_with_which_file(
    name: str, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage, said = BROKEN[name]
    damage(policy)
    with pytest.raises(ValueError, match=said) as error:
        load_policy(policy)
    assert str(policy) in str(error.value) and "\n" not in str(error.value)


def test_a_server_passes_on_what_a_model_says_whose_template_opens_the_thought(policy: Path) -> None:
    from rlver.tasks.runtime.chat_server.running import reply_queue

    assert reply_queue(str(opens_thoughts(policy)), load_settings(REPOSITORY / "params.yaml"), None, False, print)


def test_whole_shards_and_a_head_that_is_stored_twice_are_read_as_before(policy: Path) -> None:
    ids = torch.tensor([[5, 6, 7]])
    expected = load_policy(policy)[0](ids).logits
    with_tensors(policy, lambda tensors: tensors.update({"lm_head.weight": tensors[EMBEDDINGS].clone()}))
    sharded(policy, lambda file: file)
    torch.testing.assert_close(load_policy(policy)[0](ids).logits, expected)


def test_a_broken_snapshot_of_the_hub_is_refused_like_a_folder(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    cache = tmp_path / "hub" / "models--org--name"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("a" * 40)
    shutil.copytree(policy, cache / "snapshots" / ("a" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert load_policy("org/name")
    without_a_tensor(cache / "snapshots" / ("a" * 40))
    with pytest.raises(ValueError, match=f"org/name: {WEIGHTS} lacks {UP}"):
        load_policy("org/name")


# Every place that loads a model.


def test_converse_gives_no_score_to_a_policy_that_lacks_a_tensor(policy: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rlver.flows.cli import main

    assert main(["converse", "--policy", str(without_a_tensor(policy)), "--personas", "test.jsonl", "-o", "out.jsonl", "--limit", "1"]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line]
    assert line.startswith("error: ") and UP in line
    assert not list(project.glob("out.jsonl*"))


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_converse_ends_where_logits_are_not_finite(
    temperature: float, policy: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlver.flows.cli import main

    (project / "params" / "v.yaml").write_text(f"policy: {{thinking: false, temperature: {temperature}}}\n")
    assert (
        main(
            [
                "converse",
                "--policy",
                str(with_overflow(policy)),
                "--personas",
                "test.jsonl",
                "-o",
                "out.jsonl",
                "--limit",
                "1",
                "--variant",
                "v",
            ]
        )
        == 1
    )
    shown = capsys.readouterr()
    assert "turn 1: the model's logits are not finite" in shown.err and "final emotion" not in shown.out
    assert not (project / "out.jsonl").exists()


def test_chat_ends_where_logits_are_not_finite(policy: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from rlver.tasks.commands.chat import chat

    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n"))
    with pytest.raises(RuntimeError, match="logits are not finite"):
        chat(str(with_overflow(policy)), params=project / "params.yaml")


def test_the_stage_base_takes_over_no_broken_model(policy: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rlver.tasks.runtime.stage import run_stage
    from rlver.tasks.stages import base

    (project / "params" / "v.yaml").write_text(f"base: {{kind: model, model: {without_a_tensor(policy)}}}\n")
    assert run_stage(lambda: base.main(["--variant", "v", "--out", "models/base", "--metrics", "base.json"])) == 1
    assert UP in capsys.readouterr().err and not (project / "models").exists() and not (project / "base.json").exists()


def test_the_stage_train_starts_from_no_broken_model(policy: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rlver.tasks.runtime.stage import run_stage
    from rlver.tasks.stages import train

    shutil.copytree(without_a_tensor(policy), project / "models" / "base")
    options = ["--variant", "v", "--personas", "train.jsonl", "--base", "models/base", "--out", "models/v", "--logs", "logs/v"]
    assert run_stage(lambda: train.main(options)) == 1
    assert UP in capsys.readouterr().err and not (project / "models" / "v").exists()


@pytest.mark.parametrize(("damage", "said"), [(without_a_tensor, UP), (with_overflow, "logits are not finite")])
def test_the_benchmark_gives_no_score_to_a_broken_model(damage: Callable[[Path], Path], said: str, policy: Path) -> None:
    from rlver.components.ability.general import run_tasks

    damage(policy)
    for task in ("rlver_tiny_choice", "rlver_math500:sample"):
        with pytest.raises(ValueError, match=said):
            run_tasks(str(policy), [task], 2, 2, 0.05, 7)


def test_the_benchmark_unpickles_nothing(policy: Path) -> None:
    from rlver.components.ability.general import run_tasks

    torch.save(load_file(policy / WEIGHTS), policy / "pytorch_model.bin")
    (policy / WEIGHTS).unlink()
    with pytest.raises(ValueError, match=rf"no {WEIGHTS} there; pytorch_model.bin may hold code and is never read"):
        run_tasks(str(policy), ["rlver_tiny_choice"], 2, 2, 0.05, 7)


def test_a_server_is_not_started_with_a_policy_that_lacks_a_tensor(policy: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.components.settings.settings import load_settings
    from rlver.tasks.runtime import assembly

    settings = load_settings(project / "params.yaml", "v")
    settings = settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"sampler": "vllm"})})
    with pytest.raises(ValueError, match=UP), assembly.open_conversation(without_a_tensor(policy), settings, "v", 1):
        raise AssertionError("it was opened")


def test_a_server_whose_log_probabilities_are_no_numbers_gives_no_reply() -> None:
    from rlver.components.policy.policy_server import PolicyServerFailed
    from rlver.components.policy.vllm_sampler import parse_sample

    choice = {
        "token_ids": [5, 6],
        "logprobs": {"content": [{"logprob": -1.0}, {"logprob": math.nan}]},
        "weight_versions": [{"version": "a"}],
        "finish_reason": "stop",
    }
    for greedy in (False, True):
        with pytest.raises(PolicyServerFailed, match="not finite"):
            parse_sample({"choices": [choice]}, 6, greedy)


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        ({}, "model.norm.weight"),
        ({"algorithm": "ppo", "critic": "shared"}, "critic.value_head.weight"),
        ({"lora_rank": 2}, "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"),
        ({"lora_rank": 2, "algorithm": "ppo", "critic": "separate"}, "critic.trunk.layers.0.mlp.up_proj.lora_B.weight"),
    ],
)
def test_a_checkpoint_that_lost_a_tensor_is_not_gone_on_with(kind: dict[str, Any], lost: str, tmp_path: Path) -> None:
    from short_runs import PARAMETERS, StopAtSave, changed, prepared

    parameters = changed(PARAMETERS, **kind)
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, parameters, callbacks=[StopAtSave(1)]).trainer.train()
    checkpoint = tmp_path / "checkpoints" / "checkpoint-1"
    (file,) = checkpoint.glob("*model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}  # their file is written anew, twice
    was = tensors.pop(lost)
    for instead in ({}, {lost: torch.full_like(was, math.nan)}):  # it is missing, or not finite
        save_file(tensors | instead, file, metadata={"format": "pt"})
        with pytest.raises(ValueError, match=rf"checkpoint-1.*{lost.rpartition('.')[0]}"):
            prepared(tmp_path, parameters).trainer.train(resume_from_checkpoint=str(checkpoint))
