"""Adapters alone go to a server that has the base: what is written, what is asked, and that no others can speak in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from micro import micro_model
from peft import PeftModel, get_peft_model
from scripted_vllm import END, ScriptedVllm, says_two, serving

from rlver.components.policy.policy_server import PolicyServer, PolicyServerFailed
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.vllm_sampler import StaleWeights, VllmSampler
from rlver.components.policy.weights import ADAPTERS, version_of, write_adapters
from rlver.components.training.adapters import lora
from rlver.components.training.ppo import Critic
from rlver.tasks.runtime.serving import worker

REQUEST = SampleRequest("d1", (5, 6, 7), seed=11, max_tokens=4)
IDS = torch.tensor([[5, 6, 7]])


def adapted(seed: int = 1) -> Any:
    """The model inside, whose adapters do something; its wrapper has a critic with adapters of its own."""
    model = micro_model()
    wrapper = get_peft_model(model, lora(2))
    with torch.no_grad():
        for name, parameter in wrapper.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(seed))
    wrapper.critic = Critic(model, separate=True)
    return model


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model(IDS).logits  # type: ignore[no-any-return]


def test_what_is_written_is_what_peft_reads(tmp_path: Path) -> None:
    write_adapters(adapted(seed=2), tmp_path / "weights")
    model = adapted()
    assert write_adapters(model, tmp_path / "weights") == tmp_path / "weights"
    read = PeftModel.from_pretrained(micro_model(), tmp_path / "weights")
    assert torch.equal(logits(read), logits(model)) and not torch.equal(logits(read), logits(micro_model()))
    assert [path.name for path in tmp_path.iterdir()] == ["weights"], "nothing half-written stays"


def test_a_write_that_fails_leaves_the_adapters_that_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapted()
    write_adapters(model, tmp_path / "weights")
    version = version_of(tmp_path / "weights")

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model.peft_config["default"], "save_pretrained", full)
    with pytest.raises(OSError, match="No space"):
        write_adapters(model, tmp_path / "weights")
    assert version_of(tmp_path / "weights") == version


def test_the_worker_finds_the_same_version(tmp_path: Path) -> None:
    write_adapters(adapted(), tmp_path / "weights")
    assert worker.TakesWeights().version_here(str(tmp_path / "weights")) == version_of(tmp_path / "weights")


@pytest.fixture
def vllm() -> Iterator[ScriptedVllm]:
    with serving(ScriptedVllm(says_two)) as running:
        yield running


@pytest.fixture
def sampler(vllm: ScriptedVllm, tmp_path: Path) -> VllmSampler:
    model = adapted()
    return VllmSampler(vllm.url, END, 0.7, 0.9, 8, lambda: write_adapters(model, tmp_path / "weights"), adapters=True)


def sample(sampler: VllmSampler) -> Sample:
    async def ask() -> Sample:
        try:
            return await sampler.sample(REQUEST)
        finally:
            await sampler.close()

    return asyncio.run(ask())


def test_each_step_has_adapters_of_its_own_name_and_the_old_ones_are_gone(vllm: ScriptedVllm, sampler: VllmSampler, tmp_path: Path) -> None:
    sampler.start()
    first = version_of(tmp_path / "weights")
    vllm.calls.clear()
    sampler.start()
    second = version_of(tmp_path / "weights")
    assert first != second and vllm.adapters == {second: str((tmp_path / "weights").resolve())}
    assert vllm.calls == [
        "/pause wait",
        f"/update_weight_version taking {second}",
        "/v1/models",
        "/v1/unload_lora_adapter",
        "/collective_rpc",
        "/v1/load_lora_adapter",
        "/collective_rpc",
        "/reset_prefix_cache",
        f"/update_weight_version {second}",
        "/resume",
    ]
    assert sample(sampler).token_ids == (9, END) and vllm.asked[-1]["model"] == second


def test_adapters_that_are_gone_are_an_error_and_the_base_does_not_speak(vllm: ScriptedVllm, sampler: VllmSampler) -> None:
    sampler.start()
    vllm.adapters.clear()  # as after a restart of the server
    with pytest.raises(PolicyServerFailed):
        sample(sampler)


def test_adapters_of_another_run_do_not_speak(vllm: ScriptedVllm, sampler: VllmSampler, tmp_path: Path) -> None:
    sampler.start()
    kept = dict(vllm.adapters)
    PolicyServer(vllm.url).take_adapters(write_adapters(adapted(seed=2), tmp_path / "other"))
    with pytest.raises(PolicyServerFailed):
        sample(sampler)
    vllm.adapters |= kept  # even where they are loaded still, the name of the weights is another
    with pytest.raises(StaleWeights, match=r"sampled with the weights .*/other@"):
        sample(sampler)


@pytest.mark.parametrize("found", ["another disk", "written meanwhile", "no adapters"])
def test_adapters_that_are_not_the_ones_that_were_meant_speak_for_nobody(
    found: str, vllm: ScriptedVllm, sampler: VllmSampler, tmp_path: Path
) -> None:
    looks: list[str] = []

    def here(folder: str) -> str:
        looks.append(folder)
        return "other" if found == "another disk" or (found == "written meanwhile" and len(looks) == 2) else version_of(Path(folder))

    vllm.here = here
    if found == "no adapters":
        weights = sampler.weights

        def without() -> Path:
            folder = weights()
            (folder / "adapter_config.json").unlink()
            return folder

        sampler.weights = without
    with pytest.raises(PolicyServerFailed, match="No adapter found" if found == "no adapters" else r"they say \['other'\]; restart it"):
        sampler.start()
    assert vllm.version.startswith("taking ") and not vllm.paused
    assert (tmp_path / "weights" / ADAPTERS).is_file()
