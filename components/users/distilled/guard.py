"""What nothing was learned about: replies that are no message, and users unlike any recorded one.

The two are treated differently on purpose. A reply that cannot be read gets the worst change there is: were it left unscored, a policy
could escape a bad dialogue by babbling. (One that was said before cannot please, but recorded users forgave it at times.) A user who cannot be read makes the dialogue unscorable: the appraiser knows nothing of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlver.components.users.distilled.ngrams import CLAUSE, MARK, Text, share_in

PAIR_BITS = 22
LEAST_USER_UNITS = 5  # a user who has said less is not yet told from anybody
_SCORE_TALK = re.compile(
    r"(?:(?<![\d\u4e00-\u9fff])|(?<=[给我情绪分数度励])|(?<=好感|数值))[+＋]\s*10(?!\d|\s*(?:[%％+＋]|分钟|min))"
    r"|\b(?:emotion|score|reward)\w*\s*(?:[:=：]|is|to|by)\s*[+-]?\d|\bchange\w*\s*[:=：]\s*[+-]?\d"
    r"|\b(?:set|make|raise) (?:the |your )?change (?:to |by )?[+-]?\d+(?!\d| (?!please)[a-z])"
    r"|\bignore\b.{0,30}\b(?:instructions?|previous|above)\b|\bsystem prompt\b|\"(?:change|score|emotion|reward)\""
    r"|(?:情绪|情感|心情)(?:值(?!得)|指数|分数|分\s*(?:[:=：]|是|[加调提升设][到至为成])\s*[+-]?\d)"
    r"|(?:加|打|给|评)(?:我)?(?:\d+|十|满|一百)分(?![钟之])"
    r"|忽略.{0,12}(?:指令|指示|设定|提示)|系统提示词|<\|",
    re.IGNORECASE,
)


class GuardLimits(NamedTuple):
    """The ends of what was recorded; beyond them a reply, or a user, is unlike all of them."""

    longest: int  # units of a reply
    reply_known: float  # share of runs of two units that recorded replies have
    user_known: float  # the same of everything a user has said
    clause: float  # units from mark to mark, on average; a list of words has fewer
    variety: float  # distinct runs of two over all
    repetition: float  # share of the reply's runs of two that one earlier reply had


class Unreadable(NamedTuple):
    what: str
    span: str = ""


@dataclass(frozen=True, eq=False)
class Guard:
    reply_pairs: NDArray[np.uint8]  # (2**PAIR_BITS / 8): a bit for every run of two units that occurs in recorded replies
    user_pairs: NDArray[np.uint8]  # the same of recorded users
    limits: GuardLimits

    def unreadable(self, reply: Text, earlier: Sequence[Text]) -> Unreadable | None:
        """Why this is no reply that a recorded user could have got; None for one that is."""
        if reply.size < 2:
            return Unreadable("nothing")
        if talk := _SCORE_TALK.search(reply.text):
            return Unreadable("talks_about_scores", talk[0])
        limits = self.limits
        if reply.size > limits.longest:
            return Unreadable("too_long")
        if _share_marked(reply.hashes[1], self.reply_pairs) < limits.reply_known:
            return Unreadable("gibberish")
        if variety(reply) < limits.variety:
            return Unreadable("says_one_thing_again_and_again")
        if clause_length(reply) < limits.clause:
            return Unreadable("a_list_of_words")
        if max((share_in(reply.pairs, other.pairs) for other in earlier), default=0.0) > limits.repetition:
            return Unreadable("said_before")
        return None

    def strangeness(self, users: Sequence[Text]) -> float | None:
        """Of a user unlike those recorded, the share of known runs in everything said so far; None for others, and who has said little."""
        if sum(text.size for text in users) < LEAST_USER_UNITS:
            return None
        known = _share_marked(np.concatenate([text.hashes[1] for text in users]), self.user_pairs)
        return known if known < self.limits.user_known else None


def marked(texts: Sequence[Text]) -> NDArray[np.uint8]:
    """A bit for every run of two units that occurs in the texts."""
    bits = np.zeros(1 << PAIR_BITS, dtype=bool)
    for text in texts:
        bits[text.pairs & np.uint32((1 << PAIR_BITS) - 1)] = True
    return np.packbits(bits)


def _share_marked(hashes: NDArray[np.uint32], bits: NDArray[np.uint8]) -> float:
    """The share of `hashes` whose bit is set; 1 for none."""
    if not len(hashes):
        return 1.0
    places = hashes & np.uint32((1 << PAIR_BITS) - 1)
    return float(np.mean((bits[places >> 3] >> (7 - (places & 7)).astype(np.uint8)) & 1))


def variety(text: Text) -> float:
    return len(text.pairs) / max(1, len(text.hashes[1]))


def clause_length(text: Text) -> float:
    """Units that are no marks, for each stretch between marks; line ends count as marks."""
    words = text.size - len(MARK.findall(text.text))
    return words / max(1, sum(not clause.isspace() for clause in CLAUSE.findall(text.text)))
