"""A small language model (SmolLM2-135M-Instruct, Apache-2.0) that reads a reply as the answer to a message.

What it makes of the reply are its hidden states: means over the reply's tokens in a few layers, and the states at the reply's end; and how likely it
finds the reply, token by token. Replies are read one at a time and unpadded, in float32: what stands beside a reply in a batch cannot change a bit of
its numbers. The weights come from a pinned package (components/domain/packages.py) and are checked by hash when they are fetched. Some layers read
twice: with their weights as they came, and with an adapter (LoRA) that was fitted to labelled replies (`rlver hearing fit`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModel
from transformers.utils import logging

from rlver.components.users.heard.graphs import Graphs
from rlver.components.users.heard.likelihood import LIKELIHOODS, end_marks, likelihoods, token_likelihoods

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # as in policy/load.py

HIDDEN = 576
MEANS, ENDS = (5, 10, 15, 20), (15, 20)  # layers, of thirty; the upper ones think of the next token (docs/log.md)
WIDTH = HIDDEN * (len(MEANS) + len(ENDS)) + LIKELIHOODS
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
    """A reply as it was read: of each of its parts the sums of its tokens' states, and the states at the reply's end, once for each of READINGS.

    Of each token: its part, and how likely it is to the model as it came. `ends` is how likely a sentence ends after the last one.
    """

    sums_RPM: torch.Tensor
    end_RE: torch.Tensor
    part_T: torch.Tensor
    likely_T2: torch.Tensor
    ends: float

    def features(self, without: int | None = None) -> torch.Tensor:
        """(READINGS, WIDTH), of all parts or of all but one. The states at the end have read the whole reply either way."""
        left_out = -1 if without is None else without
        kept_T, kept_P = self.part_T != left_out, torch.arange(self.sums_RPM.shape[1]) != left_out
        mean_RM = self.sums_RPM[:, kept_P].sum(dim=1) / kept_T.sum().clamp(min=1)
        likely_RL = likelihoods(self.likely_T2[kept_T]).expand(len(READINGS), -1)
        return torch.cat([mean_RM, self.end_RE, likely_RL], dim=1)


@dataclass(frozen=True)
class Prompted:
    """Tokens of a message and its reply: the reply is those from `begin` on, the last of which ends it; `starts` are their places in the reply's text."""

    ids: tuple[int, ...]
    begin: int
    starts: tuple[int, ...]
    is_whole: bool  # False where the reply goes on after what is read


class Prompt:
    """Puts a message and its reply as a chat, in tokens."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.end_marks_K = end_marks(self._tokenizer)
        self._before, self._between, self._end = (self._tokens(text)[0] for text in (_BEFORE, _BETWEEN, _END))

    def __call__(self, message: str, reply: str) -> Prompted:
        told = self._tokens(_plain(message[-READ_MESSAGE * _LONGEST_TOKEN :]))[0]
        head = [*self._before, *told[-READ_MESSAGE:], *self._between]
        said, starts = self._tokens(_plain(reply.rstrip()[: READ_REPLY * _LONGEST_TOKEN]))
        ids = (*head, *said[:READ_REPLY], *self._end)
        return Prompted(ids, len(head), tuple(starts[:READ_REPLY]), len(said) <= READ_REPLY)

    def _tokens(self, text: str) -> tuple[list[int], list[int]]:
        """Numbers of the tokens, and where in the text each begins."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, [start for start, _ in encoding.offsets]


class LanguageModel:
    """Calling it reads a reply after the message it answers. On a GPU not for several threads at once (graphs.py)."""

    def __init__(self, folder: Path, adapter: Mapping[str, torch.Tensor] = NOTHING, device: str = "cpu") -> None:
        """`folder` holds the model in the format of transformers; the names in `adapter` are those of its modules with DOWN or UP.

        It computes on `device`; what it made of a reply is on the CPU.
        """
        self.prompt, self._came, self._adapted = Prompt(folder), whole_model(folder), lower_layers(folder)
        for name, down_RI in adapter.items():
            if name.endswith(DOWN):
                module = name.removesuffix(DOWN)
                self._adapted.get_submodule(module).weight.data += adapter[module + UP] @ down_RI
        del self._adapted.embed_tokens
        for layer in range(ADAPTED.start):
            self._adapted.layers[layer] = torch.nn.Identity()  # never run
        self._came, self._adapted = self._came.to(device), self._adapted.to(device)
        longest = READ_MESSAGE + READ_REPLY + len(self.prompt("", "").ids)
        self._read: Callable[[Sequence[int]], tuple[torch.Tensor, ...]] = (
            Graphs(self._pass, longest) if device.startswith("cuda") else self._plainly
        )

    @torch.inference_mode()
    def __call__(self, message: str, reply: str, begins: Sequence[int] = (0,)) -> Answer:
        """`begins` are the places in the reply where its parts begin; the first is 0."""
        read = self.prompt(message, reply)
        part_T = _parts([*read.starts, len(reply)], begins)
        means_RTM, ends_RTE, last_TH = self._read(read.ids)
        last_1TH = last_TH[None, : len(read.ids)]
        likely_T2, end_RE = likely(self._came, last_1TH, read).cpu(), ends_RTE[:, len(read.ids) - 1].cpu().clone()
        own_RTM = means_RTM[:, read.begin : len(read.ids)].cpu()
        sums_RPM = torch.zeros(len(READINGS), len(begins), own_RTM.shape[2]).index_add_(1, part_T, own_RTM)
        return Answer(sums_RPM, end_RE, part_T, likely_T2, self._ends(message, reply, read, last_1TH))  # last: it may read again

    def _ends(self, message: str, reply: str, read: Prompted, last_1TH: torch.Tensor) -> float:
        """Of a reply that is not read whole, the last words are read once more for it."""
        letters = 8 * READ_REPLY
        while not read.is_whole:
            read, letters = self.prompt(message, reply.rstrip()[-letters:]), letters // 2
            last_1TH = self._read(read.ids)[2][None, : len(read.ids)]
        logits_V = torch.nn.functional.linear(self._came.norm(last_1TH[0, -2]), self._came.embed_tokens.weight)
        return logits_V.float().softmax(dim=0).cpu()[self.prompt.end_marks_K].sum().item()

    def _plainly(self, ids: Sequence[int]) -> tuple[torch.Tensor, ...]:
        return self._pass(torch.tensor([ids], device=self._came.device))

    def _pass(self, ids_1T: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(READINGS, T, MEANS), (READINGS, T, ENDS) and, of the model as it came, the last states (T, HIDDEN)."""
        lower = through(self._came, self._came.embed_tokens(ids_1T), range(ADAPTED.start))
        readings = [lower | through(model, lower[ADAPTED.start], ADAPTED) for model in (self._came, self._adapted)]
        top = range(ADAPTED.stop, len(self._came.layers))
        last_1TH = through(self._came, readings[0][top.start], top)[top.stop]
        means, ends = (torch.stack([torch.cat([one[layer][0] for layer in layers], dim=1) for one in readings]) for layers in (MEANS, ENDS))
        return means, ends, last_1TH[0]


def through(model: Any, states_BTH: torch.Tensor, layers: range) -> dict[int, torch.Tensor]:
    """The states after each of MEANS within `layers` and after the last, from those before the first. Rows may be padded at their ends: attention is causal."""
    places = model.rotary_emb(states_BTH, torch.arange(states_BTH.shape[1], device=states_BTH.device)[None])
    taken = {}
    for layer in layers:
        states_BTH = model.layers[layer](states_BTH, attention_mask=None, position_embeddings=places)
        if layer + 1 in (*MEANS, layers.stop):
            taken[layer + 1] = states_BTH
    return taken


def likely(model: Any, states_1TH: torch.Tensor, read: Prompted) -> torch.Tensor:
    """(T, 2) as token_likelihoods: of the reply's tokens and of its end, from the last states of the whole prompt."""
    logits_TV = torch.nn.functional.linear(model.norm(states_1TH[0, read.begin - 1 : -1]), model.embed_tokens.weight)
    return token_likelihoods(logits_TV, torch.tensor(read.ids[read.begin :], device=logits_TV.device))


def whole_model(folder: Path) -> Any:
    """In float32, without a head: the embedding is that of the tokens it says."""
    return AutoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False).eval()


def lower_layers(folder: Path) -> Any:
    """The model up to the last layer whose states are taken."""
    model = whole_model(folder)
    del model.layers[max(MEANS) :]
    model.norm = torch.nn.Identity()
    return model


def _plain(text: str) -> str:
    """Without the marks by which a chat is told from its texts, and as long as before."""
    return text.replace("<|", "< ")


def _parts(starts: Sequence[int], begins: Sequence[int]) -> torch.Tensor:
    """(T,) the part in which each token begins."""
    return torch.tensor([max(0, sum(first <= start for first in begins) - 1) for start in starts])
