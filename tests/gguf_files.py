"""A small random Llama, and the GGUF file of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFWriter
from transformers import LlamaConfig, LlamaForCausalLM

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


def write_gguf(path: Path, model: Any, template: str | None = TEMPLATE, more: Callable[[GGUFWriter], None] | None = None) -> Path:
    """`more` adds what a file of another model has besides."""
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
    if more is not None:
        more(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _of(weight: Any, heads: int) -> Any:
    return turned(weight.detach(), heads).numpy().astype(np.float32)
