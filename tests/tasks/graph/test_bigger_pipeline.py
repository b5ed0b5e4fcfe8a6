"""Larger models by one word: overlays that are params/pretrained.yaml with a few differences, and what the dry run says of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlver.components.domain.files import read_yaml
from rlver.components.settings.overlays import SettingsError, overlays_of
from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dry_run, dvc, estimates, selection
from rlver.tasks.graph.dry_run import Machine

ROOT = Path(__file__).parents[3]
MODELS = ("smollm2-360m", "smollm2-1.7b", "qwen2.5-0.5b", "qwen2.5-coder-0.5b", "qwen2.5-1.5b", "qwen3-0.6b", "qwen3-4b")
GPU = Machine("a GPU", 10**12, 10**13)


def told(root: Path, plan: list[dvc.Stage], variant: str) -> str:
    chosen = selection.select(plan, None, [variant])
    return "\n".join(dry_run.estimate(root, chosen, {step.name: ["asked for"] for step in chosen}, GPU).lines)


@pytest.mark.long
@pytest.mark.parametrize("variant", MODELS)
def test_each_is_planned_with_memory_and_hours_and_a_rate_of_its_size(
    plan: list[dvc.Stage], variant: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    text = told(ROOT, plan, variant)
    assert text.startswith("9 of 9 stages would run") and "  memory     " in text and "warning" not in text
    assert "; on two cores perhaps " in text
    settings = load_settings(ROOT / "params.yaml", variant)
    shape = estimates.policy_shape(settings, None)
    layers = shape.layers
    assert 0 < settings.train.trained_layers < layers
    assert f"of {layers}\n" in (ROOT / "params" / f"{variant}.yaml").read_text(), "as its comment says"
    assert settings.simulator == load_settings(ROOT / "params.yaml", "pretrained").simulator
    on_gpu, on_cpu = (round(sum(estimates.memory(settings, shape, on_gpu=where).values()) / 1e9) for where in (True, False))
    row = f"| `{variant}` |"
    [told_in_docs] = [line for line in (ROOT / "docs" / "pretrained.md").read_text().splitlines() if line.startswith(row)]
    assert f"| {on_gpu} / {on_cpu} GB |" in told_in_docs


def test_they_are_all_there_and_run_by_name_only(plan: list[dvc.Stage]) -> None:
    of_bigger = [step for step in plan if step.pipeline == selection.BIGGER]
    assert {step.variant for step in of_bigger} == {None, *MODELS}
    assert not {step.name for step in of_bigger} & {step.name for step in selection.select(plan, None, [selection.ALL])}
    for variant in MODELS:
        assert read_yaml(ROOT / "params" / f"{variant}.yaml")["extends"] == "pretrained"
        assert list(overlays_of(ROOT / "params", variant)) == ["params/pretrained.yaml", f"params/{variant}.yaml"]


def test_the_rate_of_the_tiny_model_is_warned_of(plan: list[dvc.Stage], tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (tmp_path / "params" / "pretrained.yaml").write_text("train: {steps: 3}\n")
    (tmp_path / "params" / "qwen2.5-1.5b.yaml").write_text(
        "extends: pretrained\nbase: {kind: model, model: Qwen/Qwen2.5-1.5B-Instruct}\ntrain: {steps: 4}\n"
    )
    text = told(tmp_path, plan, "qwen2.5-1.5b")
    assert "warning    train.learning_rate 0.0008 is for a smaller model: of 1.54 billion weights at most 2e-05 is usual" in text
    assert "grpo: 4 steps" in text, "the overlay is above the one that it extends"


def test_a_warm_up_for_a_policy_that_thinks_is_told_before_it_runs(plan: list[dvc.Stage], tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (tmp_path / "params" / "pretrained.yaml").write_text("policy: {thinking: true}\n")
    (tmp_path / "params" / "qwen3-0.6b.yaml").write_text("extends: pretrained\nbase: {kind: model, model: Qwen/Qwen3-0.6B}\n")
    assert "warmup@qwen3-0.6b: the warm-up dialogues have no thoughts: set policy.thinking: false" in told(tmp_path, plan, "qwen3-0.6b")


def test_a_step_of_a_model_four_times_as_large_takes_four_times_as_long() -> None:
    settings = load_settings(ROOT / "params.yaml", "pretrained")
    shape = estimates.policy_shape(settings, None)
    assert estimates.guessed_seconds(settings, shape) == pytest.approx(132.0)
    larger = settings.model_copy(update={"policy": settings.policy.model_copy(update={"max_reply_tokens": 160})})
    assert estimates.guessed_seconds(larger, shape) == pytest.approx(528.0)


@pytest.mark.parametrize("other", ["nobody", "a", "../a", "x" * 5_000, "心" * 90, "[a]"])
def test_what_cannot_be_extended_is_refused(tmp_path: Path, other: str) -> None:
    (tmp_path / "a.yaml").write_text(f"extends: {other}\ntrain: {{steps: 3}}\n")
    with pytest.raises(SettingsError, match=r"params/a\.yaml: extends names an overlay of params/ that extends no other"):
        overlays_of(tmp_path, "a")
