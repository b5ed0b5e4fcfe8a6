"""What stands beside the language model's states when a reply is read: length, marks, how far it keeps to the user's words.

A small model that repeats a story mixes up who did what. Word pairs and triples that stand so in what the user said, pronouns turned, tell some of that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch

from rlver.components.users.scripted.reading import COMMON_WORDS

CIRCUMSTANCES = 17
_WORD = re.compile(r"[a-z']{4,}")
_TOKEN = re.compile(r"[a-z0-9']+")
_CONTENT_LETTERS = 4
_READ_REPLY, _READ_MESSAGE, _READ_BEFORE = 200, 300, 600  # words; the labelled ones are all shorter
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


def circumstances(reply: str, user: str, before: str) -> torch.Tensor:
    """(CIRCUMSTANCES,): words shared with the message and with what was told before, length and marks, then overlaps."""
    said, told, earlier = (frozenset(_WORD.findall(text.lower())) for text in (reply, user, before))
    shared = said & told
    beside = (
        len(shared) / (1 + len(said)),
        len(shared) / (1 + len(told)),
        len(said & earlier) / (1 + len(said)),
        math.log(1 + len(reply.split())),
        min(3.0, reply.count("?")),
        min(3.0, reply.count("!")),
        float(len(shared)),
    )
    return torch.tensor((*beside, *overlaps(reply, user, before)))


def overlaps(reply: str, user: str, before: str) -> tuple[float, ...]:
    """Does the reply keep to what was said in the message `user` and `before`, word by word and in order? Pronouns are turned.

    Read are the begin of the reply and the ends of the others.
    """
    said, told, earlier = _words(reply)[:_READ_REPLY], _words(user)[-_READ_MESSAGE:], _words(before)[-_READ_BEFORE:]
    known = {*told, *earlier}
    content = [word for word in said if len(word) >= _CONTENT_LETTERS and word not in COMMON_WORDS]
    new = sum(word not in known for word in content)
    pairs, triples = _runs(said, 2), _runs(said, 3)
    told_pairs, told_triples = ({*_runs(told, length), *_runs(earlier, length)} for length in (2, 3))
    of_known = [pair for pair in pairs if known.issuperset(pair)]
    longest, words = _longest_run(said, told), max(1, len(said))
    return (
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
