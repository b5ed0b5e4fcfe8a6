"""What a reply does and how well, in probabilities: small nets over the states of a language model, fitted to labelled replies (`rlver hearing fit`).

One net is for the states of the model as it came, one for those of the adapted model; their mean counts.

The language model reads the reply after the user's message (language.py); beside what it makes of it stand a few circumstances, as how many of its
words the user has used (circumstances.py). Probabilities are on a grid of 1/50, so that the last bits of a sum decide nothing but a tie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import load
from torch.nn.functional import gelu, linear

from rlver.components.domain.acts import ACTS, SURE
from rlver.components.domain.emotion import added
from rlver.components.domain.files import BadFile
from rlver.components.domain.packages import MINILM, SMOLLM2, unchanged
from rlver.components.users.heard.circumstances import circumstances
from rlver.components.users.heard.language import DOWN, READ_REPLY, READINGS, UP, Answer, LanguageModel
from rlver.components.users.heard.meaning import HIDDEN, meaning
from rlver.components.users.heard.threads import ReadOnce, one_each
from rlver.components.users.scripted.reading import SENTENCE
from rlver.components.users.special.signs import SIGNS
from rlver.components.weights.sources.package import of_package

QUALITIES = ("specific", "picks_up", "coherent", "sincere")
VALUES = (-2, -1, 0, 1, 2)  # how most people would take it who do not say what they need: hurt, let down, nothing, helped, reached
SIGNS_HEARD = tuple(sign for signs in SIGNS.values() for sign in signs)  # in replies to users of a kind (users/special)
_PARTS = ("mean", "scale", "in.weight", "in.bias", "out.weight", "out.bias")
_NETS = {f"{reading}.{part}" for reading in READINGS for part in _PARTS}
OUTPUTS = (*ACTS, *QUALITIES, *(f"above {value}" for value in VALUES[:-1]), *SIGNS_HEARD)
HEADS = Path(__file__).with_name("heads.safetensors")
FURTHEST = 6.0  # standard deviations; a few states are far out now and then
GRID = 50
CARRIED = SURE / 2 - 1 / GRID  # the least probability of an act or sign that has a sentence: a step below what is spoken of (rounding.py)


@dataclass(frozen=True)
class Heard:
    """Probabilities of acts, qualities and signs, the expected value in -2..2, and for each act and sign the sentence that carries it."""

    acts: Mapping[str, float]
    quality: Mapping[str, float]
    value: float
    helps: float  # that most people would take it as help: a value above 0
    spans: Mapping[str, str]
    meaning: torch.Tensor  # see meaning.py
    signs: Mapping[str, float] = field(default_factory=dict)  # what they say of replies to users of no kind is not to be trusted
    ends: float = 1.0  # that a sentence ends where the reply does, if no mark says so

    @property
    def found(self) -> frozenset[str]:
        return frozenset(act for act, probability in self.acts.items() if probability >= SURE)


NOTHING = Heard(
    dict.fromkeys(ACTS, 0.0), dict.fromkeys(QUALITIES, 0.0), 0.0, 0.0, {}, torch.zeros(HIDDEN), dict.fromkeys(SIGNS_HEARD, 0.0)
)  # of a reply that says nothing new


class Reader:
    """Hears replies with one file of what was fitted (fit.py writes it): on a CPU several at a time, where `soon` asks for them. Raises NotFetched and BadFile."""

    def __init__(self, heads: Path = HEADS, device: str = "cpu") -> None:
        content = heads.read_bytes()
        self._nets = {name: tensor.float() for name, tensor in load(content).items()}
        adapter = {name: self._nets.pop(name) for name in tuple(self._nets) if name.endswith((DOWN, UP))}
        if self._nets.keys() != _NETS or len(self._nets["adapted.out.bias"]) != len(OUTPUTS):
            raise BadFile(f"{heads}: not a file of this reader (heard-15): fit it again with `rlver hearing fit`")
        self._language, self._meaning = LanguageModel(_checked(), adapter, device), meaning(device)
        pool = one_each() if device == "cpu" else None  # a GPU's graphs are for one thread at a time
        self._once = ReadOnce(self._hear, pool, most=1 << 13)  # of a dialogue that goes on, all but the last reply were heard before
        weights = f"{SMOLLM2.sha256[:8]} {MINILM.inside['model.safetensors'][:8]}"
        self.version = f"heard-15 {weights} {hashlib.sha256(content).hexdigest()[:8]}"

    def hear(self, reply: str, user: str, before: str = "") -> Heard:
        """`reply` to the message `user`; `before` is what the user said earlier in the dialogue."""
        return self._once.wait(reply, user, before)

    def soon(self, reply: str, user: str, before: str = "") -> Future[Heard]:
        """The same, without waiting for it. Whoever needs it no longer may cancel it."""
        return self._once.soon(reply, user, before)

    @torch.inference_mode()
    def _hear(self, reply: str, user: str, before: str) -> Heard:
        said = (match for match in SENTENCE.finditer(reply) if match.group().strip())
        sentences = list(islice(said, READ_REPLY))  # a sentence has a token or more, and no more tokens are read
        answer = self._language(user, reply, [0, *(match.start() for match in sentences[1:])])
        beside = circumstances(reply, user, before)
        probability = dict(zip(OUTPUTS, self._probabilities([answer.features()], beside)[0].tolist(), strict=True))
        named = {name: round(one * GRID) / GRID for name, one in probability.items()}
        value = added(named[f"above {step}"] for step in VALUES[:-1]) + VALUES[0]
        acts = {act: named[act] for act in ACTS}
        signs = {sign: named[sign] for sign in SIGNS_HEARD}
        asked = [name for name, probability in {**acts, **signs}.items() if probability >= CARRIED]
        spans = self._spans(asked, [match.group().strip() for match in sentences], answer, beside)
        quality, ends = {one: named[one] for one in QUALITIES}, round(answer.ends * GRID) / GRID
        return Heard(acts, quality, round(value, 2), named["above 0"], spans, self._meaning(reply), signs, ends)

    def _spans(self, asked: Sequence[str], sentences: Sequence[str], answer: Answer, beside: torch.Tensor) -> dict[str, str]:
        """The sentence without which it would be least likely, for each act and sign in `asked`."""
        if len(sentences) < 2 or not asked:
            return dict.fromkeys(asked, sentences[0] if sentences else "")
        left_PO = self._probabilities([answer.features(part) for part in range(len(sentences))], beside)
        return {name: sentences[int(left_PO[:, OUTPUTS.index(name)].argmin())] for name in asked}

    def _probabilities(self, features: Sequence[torch.Tensor], beside_C: torch.Tensor) -> torch.Tensor:
        """(N, OUTPUTS), from N times (READINGS, WIDTH) and the circumstances that all of them have."""
        by_reading_RNW = torch.stack(list(features), dim=1)
        beside_NC = beside_C.expand(len(features), -1)
        of_each = [self._of(name, torch.cat([one_NW, beside_NC], dim=1)) for name, one_NW in zip(READINGS, by_reading_RNW, strict=True)]
        return torch.stack(of_each).mean(dim=0)

    def _of(self, reading: str, features_NF: torch.Tensor) -> torch.Tensor:
        """(N, OUTPUTS): the probabilities of one reading's net."""
        mean_F, scale_F, inner, bias_I, out, bias_O = (self._nets[f"{reading}.{part}"] for part in _PARTS)
        inner_NI = gelu(linear(scaled(features_NF, mean_F, scale_F), inner, bias_I))
        return linear(inner_NI, out, bias_O).sigmoid()


def scaled(features_NF: torch.Tensor, mean_F: torch.Tensor, scale_F: torch.Tensor) -> torch.Tensor:
    """(N, F) as the net wants them."""
    return ((features_NF - mean_F) / scale_F).clamp(-FURTHEST, FURTHEST)


@cache
def _checked() -> Path:
    """The language model's folder, hashed once a process."""
    return unchanged(of_package(SMOLLM2.name))


@cache
def reader() -> Reader:
    """The one of this process, on the GPU where there is one; its two models are fetched if need be. Raises NotFetched."""
    return Reader(device="cuda" if torch.cuda.is_available() else "cpu")
