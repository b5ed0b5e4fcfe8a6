"""Whether a short reply in plain words makes sense as an answer to this message: a second reading, for the kind of text that small models write.

The nets of reading.py were fitted to replies of which nearly all make sense, and find sense in every plain sentence. So there are two logistic regressions
beside them, fitted to replies that were read strictly (tasks/studies/hearing/sense.py): one says how far a reply is of that kind, the other how likely
it is coherent if it is. They see the states of the language model, and how far the reply keeps to the user's words and their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch

from rlver.components.users.scripted.reading import COMMON_WORDS

OVERLAPS = 10
FURTHEST = 6.0  # standard deviations
_TOKEN = re.compile(r"[a-z0-9']+")
_CONTENT_LETTERS = 4
_TURNED = {  # the user's words as the other one says them
    "i": "you",
    "me": "you",
    "we": "you",
    "us": "you",
    "my": "your",
    "our": "your",
    "mine": "yours",
    "myself": "yourself",
    "i'm": "you're",
    "i've": "you've",
    "i'd": "you'd",
    "i'll": "you'll",
    "am": "are",
    "was": "were",
}


class Sense:
    """The two regressions. `tensors` are mean (F,), scale (F,), weight (2, F) and bias (2,), under names that begin with "sense."."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._mean, self._scale, self._weight, self._bias = (tensors[f"sense.{name}"] for name in ("mean", "scale", "weight", "bias"))

    def coherent(self, features_F: torch.Tensor, otherwise: float) -> float:
        """The probability of coherence, where `otherwise` is that of the nets: mixed by how far the reply is of the kind that was read strictly."""
        strict, sense = torch.addmv(self._bias, self._weight, standardised(features_F, self._mean, self._scale)).sigmoid().tolist()
        return float(strict * sense + (1 - strict) * otherwise)


def standardised(features_NF: torch.Tensor, mean_F: torch.Tensor, scale_F: torch.Tensor) -> torch.Tensor:
    return ((features_NF - mean_F) / scale_F).clamp(-FURTHEST, FURTHEST)


def overlaps(reply: str, user: str, before: str) -> torch.Tensor:
    """(OVERLAPS,): does the reply keep to what was said in the message `user` and `before`, word by word and in order? Pronouns are turned."""
    said, told, earlier = (_words(text) for text in (reply, user, before))
    known = {*told, *earlier}
    content = [word for word in said if len(word) >= _CONTENT_LETTERS and word not in COMMON_WORDS]
    new = sum(word not in known for word in content)
    pairs, triples = _runs(said, 2), _runs(said, 3)
    told_pairs, told_triples = ({*_runs(told, length), *_runs(earlier, length)} for length in (2, 3))
    of_known = [pair for pair in pairs if known.issuperset(pair)]
    longest, words = _longest_run(said, told), max(1, len(said))
    return torch.tensor(
        (
            sum(word in told for word in content) / max(1, len(content)),
            new / max(1, len(content)),
            float(new),
            sum(pair in told_pairs for pair in pairs) / max(1, len(pairs)),
            sum(pair in told_pairs for pair in of_known) / max(1, len(of_known)),
            sum(pair not in told_pairs for pair in of_known) / words,
            sum(triple in told_triples for triple in triples) / max(1, len(triples)),
            longest / words,
            float(longest),
            float(reply.count("?")),
        )
    )


def _words(text: str) -> list[str]:
    return [_TURNED.get(word, word) for word in _TOKEN.findall(text.lower())]


def _runs(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(words[first : first + length]) for first in range(len(words) - length + 1)]


def _longest_run(said: Sequence[str], told: Sequence[str]) -> int:
    """Words one after the other that stand so in both."""
    best, ends = 0, [0] * (len(told) + 1)
    for word in said:
        ends = [0, *(ends[place] + 1 if word == other else 0 for place, other in enumerate(told))]
        best = max(best, *ends)
    return best
