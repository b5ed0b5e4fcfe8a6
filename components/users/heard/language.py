"""A small language model (SmolLM2-135M-Instruct, Apache-2.0) that reads a reply as the answer to a message.

What it makes of the reply are its hidden states: means over the reply's tokens in a few layers, and the states at the reply's end. Replies are read one at a
time and unpadded, in float32: what stands beside a reply in a batch cannot change a bit of its numbers. The weights come from a pinned package
(components/domain/packages.py) and are checked by hash when they are fetched; layers above the last that is taken are left out. The upper half of those
that are run reads twice: with its weights as they came, and with an adapter (LoRA) that was fitted to labelled replies (`rlver hearing fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModel
from transformers.utils import logging

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # as in policy/load.py

HIDDEN = 576
MEANS, ENDS = (5, 10, 15, 20), (15, 20)  # layers, of thirty; the upper ones think of the next token (docs/log.md)
WIDTH = HIDDEN * (len(MEANS) + len(ENDS))
ADAPTED = range(10, 20)  # layers; those below are the same for both readings
READINGS = ("came", "adapted")
DOWN, UP = ".down", ".up"  # of an adapter: (rank, inputs) and (outputs, rank)
NOTHING: Mapping[str, torch.Tensor] = {}
READ_MESSAGE, READ_REPLY = 96, 128  # tokens of the message (its end) and of the reply
_BEFORE, _BETWEEN = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
_END = "<|im_end|>"
_LONGEST_TOKEN = 64  # characters; of a longer text only the end or the begin is looked at


@dataclass(frozen=True)
class Answer:
    """A reply as it was read: of each of its parts the sums of its tokens' states, how many tokens those are, and the states at the reply's end.

    All states once for each of READINGS.
    """

    sums_RPM: torch.Tensor
    tokens: tuple[int, ...]
    end_RE: torch.Tensor

    def features(self, without: int | None = None) -> torch.Tensor:
        """(READINGS, WIDTH), of all parts or of all but one. The states at the end have read the whole reply either way."""
        kept = [part for part, tokens in enumerate(self.tokens) if part != without and tokens]
        mean_RM = self.sums_RPM[:, kept].sum(dim=1) / max(1, sum(self.tokens[part] for part in kept))
        return torch.cat([mean_RM, self.end_RE], dim=1)


@dataclass(frozen=True)
class Prompted:
    """Tokens of a message and its reply: the reply is those from `begin` on, the last of which ends it; `starts` are their places in the reply's text."""

    ids: tuple[int, ...]
    begin: int
    starts: tuple[int, ...]


class Prompt:
    """Puts a message and its reply as a chat, in tokens."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._before, self._between, self._end = (self._tokens(text)[0] for text in (_BEFORE, _BETWEEN, _END))

    def __call__(self, message: str, reply: str) -> Prompted:
        told = self._tokens(_plain(message[-READ_MESSAGE * _LONGEST_TOKEN :]))[0]
        head = [*self._before, *told[-READ_MESSAGE:], *self._between]
        said, starts = self._tokens(_plain(reply[: READ_REPLY * _LONGEST_TOKEN]))
        return Prompted((*head, *said[:READ_REPLY], *self._end), len(head), tuple(starts[:READ_REPLY]))

    def _tokens(self, text: str) -> tuple[list[int], list[int]]:
        """Numbers of the tokens, and where in the text each begins."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, [start for start, _ in encoding.offsets]


class LanguageModel:
    """Calling it reads a reply after the message it answers. Not for several threads at once."""

    def __init__(self, folder: Path, adapter: Mapping[str, torch.Tensor] = NOTHING) -> None:
        """`folder` holds the model in the format of transformers; the names in `adapter` are those of its modules with DOWN or UP."""
        self.prompt, self._came, self._adapted = Prompt(folder), lower_layers(folder), lower_layers(folder)
        for name, down_RI in adapter.items():
            if name.endswith(DOWN):
                module = name.removesuffix(DOWN)
                self._adapted.get_submodule(module).weight.data += adapter[module + UP] @ down_RI
        del self._adapted.embed_tokens
        for layer in range(ADAPTED.start):
            self._adapted.layers[layer] = torch.nn.Identity()  # never run

    @torch.inference_mode()
    def __call__(self, message: str, reply: str, begins: Sequence[int] = (0,)) -> Answer:
        """`begins` are the places in the reply where its parts begin; the first is 0."""
        read = self.prompt(message, reply)
        own_T, part_T = slice(read.begin, None), _parts([*read.starts, len(reply)], begins)
        lower = through(self._came, self._came.embed_tokens(torch.tensor([read.ids])), range(ADAPTED.start))
        readings = [lower | through(model, lower[ADAPTED.start], ADAPTED) for model in (self._came, self._adapted)]
        own_RTM = torch.stack([torch.cat([states[layer][0, own_T] for layer in MEANS], dim=1) for states in readings])
        sums_RPM = torch.zeros(len(readings), len(begins), own_RTM.shape[2]).index_add_(1, part_T, own_RTM)
        tokens = tuple(torch.bincount(part_T, minlength=len(begins)).tolist())
        return Answer(sums_RPM, tokens, torch.stack([torch.cat([states[layer][0, -1] for layer in ENDS]) for states in readings]))


def through(model: Any, states_BTH: torch.Tensor, layers: range) -> dict[int, torch.Tensor]:
    """The states after each of MEANS within `layers`, from those before the first of these. Rows may be padded at their ends: attention is causal."""
    places = model.rotary_emb(states_BTH, torch.arange(states_BTH.shape[1])[None])
    taken = {}
    for layer in layers:
        states_BTH = model.layers[layer](states_BTH, attention_mask=None, position_embeddings=places)
        if layer + 1 in MEANS:
            taken[layer + 1] = states_BTH
    return taken


def lower_layers(folder: Path) -> Any:
    """The model up to the last layer that is taken, in float32."""
    model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False).eval()
    del model.layers[max(MEANS) :]
    model.norm = torch.nn.Identity()
    return model


def _plain(text: str) -> str:
    """Without the marks by which a chat is told from its texts, and as long as before."""
    return text.replace("<|", "< ")


def _parts(starts: Sequence[int], begins: Sequence[int]) -> torch.Tensor:
    """(T,) the part in which each token begins."""
    return torch.tensor([max(0, sum(first <= start for first in begins) - 1) for start in starts])
