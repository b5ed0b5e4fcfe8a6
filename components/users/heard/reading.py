"""What a reply does and how well, in probabilities: small nets over an encoder, fitted to labelled replies (`rlver hearing fit`).

The reply is read twice. Alone, by the encoder as it comes: beside its features stand how near it is to the user's message in meaning, and how many of
its words the user has used. And after the message, by the encoder with its fitted changes. The probability is the mean of both. Probabilities are on a grid of 1/50, so that the last bits of a sum decide nothing but a tie.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load
from torch.nn.functional import gelu, linear

from rlver.components.domain.acts import ACTS
from rlver.components.domain.packages import MINILM, fetched
from rlver.components.users.heard.encoder import HIDDEN, READ_TOKENS, WIDTH, Answer, Encoded, Encoder

QUALITIES = ("specific", "picks_up", "coherent", "sincere")
VALUES = (-2, -1, 0, 1, 2)  # how most people would take it who do not say what they need: hurt, let down, nothing, helped, reached
OUTPUTS = (*ACTS, *QUALITIES, *(f"above {value}" for value in VALUES[:-1]))
HEADS = Path(__file__).with_name("heads.safetensors")
CIRCUMSTANCES = 7  # numbers about the reply that are no encoder's
GRID = 50
SURE = 0.3  # an act of this probability counts as found; docs/hearing.md says what it was chosen on, and what was seen before
_WORD = re.compile(r"[a-z']{4,}")
_SENTENCE = re.compile(r"[^.!?;\n]+[.!?;]*")


@dataclass(frozen=True)
class Heard:
    """Probabilities of acts and qualities, the expected value in -2..2, and for each act the sentence that carries it."""

    acts: Mapping[str, float]
    quality: Mapping[str, float]
    value: float
    helps: float  # that most people would take it as help: a value above 0
    spans: Mapping[str, str]
    meaning: torch.Tensor  # (HIDDEN,), see Encoded

    @property
    def found(self) -> frozenset[str]:
        return frozenset(act for act, probability in self.acts.items() if probability >= SURE)


class Reader:
    """Hears replies with one encoder in two versions, and one file of nets and changes (fit.py writes it)."""

    def __init__(self, weights: Path, heads: Path = HEADS) -> None:
        """`weights` is the folder of the encoder as it comes."""
        content = heads.read_bytes()
        self._tensors = {name: tensor.float() for name, tensor in load(content).items()}
        self._nets = int(json.loads(_metadata(heads)["nets"]))
        self._alone, self._paired = Encoder(weights), Encoder(weights, self._tensors)
        self.hear = lru_cache(maxsize=1 << 13)(self._hear)  # of a dialogue that goes on, all but the last reply were heard before
        self.version = f"heard-3 {MINILM.inside['model.safetensors'][:8]} {hashlib.sha256(content).hexdigest()[:8]}"

    @torch.inference_mode()
    def _hear(self, reply: str, user: str, before: str = "") -> Heard:
        """`reply` to the message `user`; `before` is what the user said earlier in the dialogue."""
        said = (match for match in _SENTENCE.finditer(reply) if match.group().strip())
        sentences = list(islice(said, READ_TOKENS))  # a sentence has a token or more, and no more tokens are read
        begins = [0, *(match.start() for match in sentences[1:])]
        read, context, answer = self._alone(reply, begins), self._alone(user), self._paired.answer(user, reply, begins)
        beside = context_features(reply, user, before, read, context)
        probability = self._probabilities(torch.cat([read.mean_W, beside])[None], answer.features()[None], beside)[0].tolist()
        named = dict(zip(OUTPUTS, (round(one * GRID) / GRID for one in probability), strict=True))
        value = sum(named[f"above {step}"] for step in VALUES[:-1]) + VALUES[0]
        acts = {act: named[act] for act in ACTS}
        spans = self._spans(acts, [match.group().strip() for match in sentences], read, answer, beside)
        return Heard(acts, {one: named[one] for one in QUALITIES}, round(value, 2), named["above 0"], spans, read.meaning)

    def _spans(
        self, acts: Mapping[str, float], sentences: Sequence[str], read: Encoded, answer: Answer, beside: torch.Tensor
    ) -> dict[str, str]:
        """The sentence without which an act would be least likely, for each act that is not out of the question."""
        asked = [act for act, probability in acts.items() if probability >= SURE / 2]
        if len(sentences) < 2 or not asked:
            return dict.fromkeys(asked, sentences[0] if sentences else "")
        numbers = range(len(sentences))
        alone_PF = torch.stack([torch.cat([read.without(part), beside]) for part in numbers])
        left_PO = self._probabilities(alone_PF, torch.stack([answer.features(without=part) for part in numbers]), beside)
        return {act: sentences[int(left_PO[:, OUTPUTS.index(act)].argmin())] for act in asked}

    def _probabilities(self, alone_NF: torch.Tensor, answer_NF: torch.Tensor, beside: torch.Tensor) -> torch.Tensor:
        """(N, OUTPUTS): the mean of the nets over the reply alone, and the net over the reply as an answer."""
        weights = self._tensors
        scaled_NF = (alone_NF - weights["mean"]) / weights["scale"]
        alone = torch.stack([self._net(f"{net}", scaled_NF) for net in range(self._nets)]).mean(dim=0)
        circumstances = ((beside - weights["mean"][WIDTH:]) / weights["scale"][WIDTH:])[-CIRCUMSTANCES:]
        answered = self._net("answer", torch.cat([answer_NF, circumstances.expand(len(answer_NF), -1)], dim=1))
        return (alone + answered) / 2

    def _net(self, name: str, features_NF: torch.Tensor) -> torch.Tensor:
        weights = self._tensors
        inner = gelu(linear(features_NF, weights[f"{name}.in.weight"], weights[f"{name}.in.bias"]))
        return linear(inner, weights[f"{name}.out.weight"], weights[f"{name}.out.bias"]).sigmoid()


def context_features(reply: str, user: str, before: str, read: Encoded, context: Encoded) -> torch.Tensor:
    """(HIDDEN + 1 + CIRCUMSTANCES,): nearness in meaning to the user's message, and the circumstances."""
    near = read.meaning * context.meaning
    said, told, earlier = (frozenset(_WORD.findall(text.lower())) for text in (reply, user, before))
    shared = said & told
    numbers = (
        len(shared) / (1 + len(said)),
        len(shared) / (1 + len(told)),
        len(said & earlier) / (1 + len(said)),
        math.log(1 + len(reply.split())),
        min(3, reply.count("?")),
        min(3, reply.count("!")),
        len(shared),
    )
    return torch.cat([near * math.sqrt(HIDDEN), near.sum()[None], torch.tensor(numbers)])


def _metadata(heads: Path) -> dict[str, Any]:
    with safe_open(heads, framework="pt") as opened:
        return dict(opened.metadata() or {})


@cache
def reader() -> Reader:
    """The one of this process, whose encoder is fetched if need be. Raises NotFetched."""
    return Reader(fetched(MINILM))
