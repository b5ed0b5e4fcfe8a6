"""Weights on their way to a server: what is written is what the model speaks with, adapters included, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from micro import micro_model, micro_tokenizer
from peft import get_peft_model
from safetensors.torch import load_file
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from rlver.components.policy.load import load_policy, save_policy
from rlver.components.policy.weights import FILE, plain_weights, put_in_place, version_of, write_weights
from rlver.components.training.adapters import lora
from rlver.components.training.ppo import Critic
from rlver.tasks.runtime.serving import worker


def test_what_is_written_is_what_save_pretrained_writes(tmp_path: Path) -> None:
    model = micro_model()
    save_policy(model, micro_tokenizer(), tmp_path / "saved")
    write_weights(model, tmp_path / "sent")
    saved, sent = load_file(tmp_path / "saved" / FILE), load_file(tmp_path / "sent" / FILE)
    assert sent.keys() == saved.keys() and all(torch.equal(sent[name], saved[name]) for name in saved)
    assert [path.name for path in (tmp_path / "sent").iterdir()] == [FILE], "no half-written neighbour stays"


def test_a_critic_stays_at_home() -> None:
    model = micro_model()
    expected = plain_weights(model).keys()
    model.critic = Critic(model, separate=True)
    assert plain_weights(model).keys() == expected


def adapted(dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """(a model whose layers have adapters that do something, peft's wrapper of it)"""
    model = micro_model(layers=3).to(dtype)
    wrapper = get_peft_model(model, lora(2))
    with torch.no_grad():
        for name, parameter in wrapper.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(1))
    return model, wrapper


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_adapters_the_tensors_are_those_of_peft_s_own_merge_to_the_last_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    model, wrapper = adapted(dtype)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    write_weights(model, tmp_path / "sent")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items()), "the trainer's own are as they were"
    save_policy(wrapper.merge_and_unload(), micro_tokenizer(), tmp_path / "saved")
    sent, saved = load_file(tmp_path / "sent" / FILE), load_file(tmp_path / "saved" / FILE)
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in sent.items()} == {
        name: (tensor.dtype, tensor.shape) for name, tensor in saved.items()
    }
    assert all(torch.equal(sent[name], saved[name]) for name in saved)
    assert not torch.equal(sent["model.layers.0.mlp.up_proj.weight"], before["model.layers.0.mlp.up_proj.base_layer.weight"])


class NewMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """`most`: the bytes at the same time of all storages that were made inside and are still there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[int, tuple[Any, int]] = {}
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {one.untyped_storage()._cdata for one in args if isinstance(one, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and (storage := result.untyped_storage())._cdata not in given:
            self.made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())  # type: ignore[no-untyped-call]
        self.most = max(self.most, sum(size for storage, size in self.made.values() if not storage.expired()))
        return result


def test_of_all_matrices_with_adapters_one_is_there_at_a_time(tmp_path: Path) -> None:
    model, _ = adapted()
    matrices = [module.weight.nbytes for module in model.modules() if hasattr(module, "get_delta_weight")]
    with NewMemory() as new:
        write_weights(model, tmp_path)
    assert new.most == 2 * max(matrices) < sum(matrices) / 5, "the product and the scaled one, for a moment"


def test_without_adapters_nothing_is_copied(tmp_path: Path) -> None:
    model = micro_model()
    with NewMemory() as new:
        write_weights(model, tmp_path)
    assert new.most == 0


def test_sent_weights_load_as_a_policy(tmp_path: Path) -> None:
    model = micro_model(scale=2.0)
    save_policy(micro_model(), micro_tokenizer(), tmp_path)
    write_weights(model, tmp_path)
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(load_policy(tmp_path)[0](ids).logits, model(ids).logits)


def test_a_version_names_the_folder_and_the_moment_alike_on_both_sides(tmp_path: Path) -> None:
    write_weights(micro_model(), tmp_path)
    first = version_of(tmp_path)
    assert first == worker.version_of(str(tmp_path)) and first.startswith(f"{tmp_path}@")
    os.utime(tmp_path / FILE, ns=(1, 1))
    assert version_of(tmp_path) == f"{tmp_path}@1" != first
    empty = tmp_path / "empty"
    assert version_of(empty) == worker.version_of(str(empty)) == f"{empty}@nothing"


class Worker(worker.TakesWeights):
    """vLLM's side of the worker, as far as ours uses it: a head that multiplies with a copy of its weights."""

    def __init__(self, model: Any, on_reload: Any) -> None:
        self.model_runner = self
        self.model = model
        self.reload_weights = on_reload

    def get_model(self) -> Any:
        return self.model


class Head:
    """`packed` is what it speaks with; vLLM packs when asked, and once only unless its mark is gone."""

    def __init__(self, weight: int) -> None:
        self.weight = self.packed = weight
        self.cpu_linear = None
        self.quant_method = self
        self._already_called_process_weights_after_loading = True

    def process_weights_after_loading(self, head: Head) -> None:
        if not hasattr(self, "_already_called_process_weights_after_loading"):
            head.packed = head.weight


@pytest.mark.parametrize(("tied", "packed"), [(True, 2), (False, 1)])
def test_a_tied_head_is_packed_again_after_a_reload(tied: bool, packed: int, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"new")
    model = type("Model", (), {"lm_head": Head(1), "config": type("Config", (), {"tie_word_embeddings": tied})})
    taking = Worker(model, lambda weights_path: setattr(model.lm_head, "weight", 2))  # type: ignore[attr-defined]
    assert taking.take_weights(str(tmp_path), version_of(tmp_path)) == version_of(tmp_path)
    assert model.lm_head.packed == packed  # type: ignore[attr-defined]


def test_weights_that_are_not_the_ones_that_were_meant_are_refused_before_and_after(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"weights")
    reloaded: list[str] = []
    taking = Worker(object(), lambda weights_path: reloaded.append(weights_path))
    said = taking.take_weights(str(tmp_path), f"{tmp_path}@1")
    assert re.fullmatch(
        r"RuntimeError: expected weights .*@1, found .*: the server must see the same disk, and nobody may write there", said
    )
    assert not reloaded
    meddling = Worker(object(), lambda weights_path: os.utime(tmp_path / FILE, ns=(5, 5)))
    assert re.search(r"found .*@5", meddling.take_weights(str(tmp_path), version_of(tmp_path)))


def test_a_save_that_fails_leaves_the_policy_that_was_there(tmp_path: Path) -> None:
    class FullDisk:
        def save_pretrained(self, folder: Path) -> None:
            raise OSError(28, "No space left on device")

    model = micro_model(scale=2.0)
    save_policy(model, micro_tokenizer(), tmp_path / "policy")
    with pytest.raises(OSError, match="No space"):
        save_policy(micro_model(), FullDisk(), tmp_path / "policy")
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(load_policy(tmp_path / "policy")[0](ids).logits, model(ids).logits)


def folders(parent: Path) -> dict[str, str]:
    return {folder.name: (folder / FILE).read_text() for folder in parent.iterdir()}


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A folder with an old policy, and beside it a new one."""
    for name, content in (("policy", "old"), (".policy.part", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(content)
    return tmp_path


def test_a_new_policy_takes_the_place_of_the_old_one_also_after_a_kill(waiting: Path) -> None:
    shutil.copytree(waiting / "policy", waiting / ".policy.old")
    put_in_place(waiting / ".policy.part", waiting / "policy")
    assert folders(waiting) == {"policy": "new"}
    (waiting / "policy").rename(waiting / ".policy.old")
    (waiting / "next").mkdir()
    (waiting / "next" / FILE).write_text("next")
    put_in_place(waiting / "next", waiting / "policy")
    assert folders(waiting) == {"policy": "next"}


def test_an_interrupt_while_the_old_policy_goes_takes_no_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy, remove = tmp_path / "policy", shutil.rmtree

    def interrupted(path: Path, ignore_errors: bool = False) -> None:
        if path.name == ".policy.old" and path.exists():
            (path / FILE).unlink()
            raise KeyboardInterrupt
        assert path != policy, "the only whole one"
        remove(path, ignore_errors)

    new = micro_model(scale=2.0)
    save_policy(micro_model(), micro_tokenizer(), policy)
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_policy(new, micro_tokenizer(), policy)
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(load_policy(policy)[0](ids).logits, new(ids).logits)


def test_a_policy_that_cannot_be_renamed_is_kept_beside_the_old_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace = Path.replace

    def refusing(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(16, "Device or resource busy")
        return replace(self, target)

    old, new = micro_model(), micro_model(scale=2.0)
    save_policy(old, micro_tokenizer(), tmp_path / "policy")
    monkeypatch.setattr(Path, "replace", refusing)
    with pytest.raises(OSError, match="busy"):
        save_policy(new, micro_tokenizer(), tmp_path / "policy")
    ids = torch.tensor([[5, 6, 7]])
    for name, model in (("policy", old), (".policy.part", new)):
        torch.testing.assert_close(load_policy(tmp_path / name)[0](ids).logits, model(ids).logits)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".policy.part", "policy"]
