"""Plain measures of a reply in its dialogue: length, marks, redundancy, specificity. Every one can be said in words."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from components.simulator.distilled.moment import CLASSES, NEEDS, Moment
from components.simulator.distilled.ngrams import Text, distinct, read, share_in

_SHAPE = ("length", "questions", "exclamations", "ends_asking", "lines", "bold", "list_items", "sentences", "commas", "emoji", "quotes",
          "brackets", "dots", "dashes")  # fmt: skip
_IN_DIALOGUE = ("turn", "longer_than_before", "repeats_one_reply", "repeats_all_replies", "echoes_message", "uses_users_words",
                "message_taken_up", "uses_story", "uses_what_serves", "uses_what_misses", "what_serves_taken_up",
                "what_misses_taken_up", "user_repeats", "message_on_what_serves", "message_length", "user_asks", "user_exclaims",
                "user_trails_off")  # fmt: skip
NAMES = (*_SHAPE, *_IN_DIALOGUE, *(f"need:{need}" for need in NEEDS), *(f"class:{kind}" for kind in CLASSES))

_LIST_ITEM = re.compile(r"^[^\S\n]*(?:\d+[.、)]|[-*•])", re.MULTILINE)
_EMOJI = re.compile("[\U0001f001-\U0010ffff]")
_SENTENCE_END = re.compile(r"[。！？!?.]+")


@lru_cache(maxsize=20_000)
def shape(text: str) -> tuple[float, ...]:
    """The measures of a text by itself, in the order of `_SHAPE`."""

    def count(*marks: str) -> int:
        return sum(text.count(mark) for mark in marks)

    return (
        math.log1p(read(text).size),
        count("?", "？"),
        count("!", "！"),
        float(text.rstrip()[-1:] in ("?", "？")),
        text.count("\n"),
        text.count("**"),
        len(_LIST_ITEM.findall(text)),
        len(_SENTENCE_END.findall(text)),
        100 * count(",", "，") / max(1, len(text)),
        len(_EMOJI.findall(text)),
        count("“", '"'),
        count("(", "（"),
        count("…"),
        count("—"),
    )


def measures(moment: Moment) -> NDArray[np.float64]:
    """One number for each of `NAMES`."""
    reply, user = read(moment.replies[-1]), read(moment.users[-1])
    earlier_replies, earlier_users = [read(text) for text in moment.replies[:-1]], [read(text) for text in moment.users[:-1]]
    background, serves, misses = (read(text).pairs for text in (moment.known.background, moment.known.serves, moment.known.misses))
    pairs, asked = reply.pairs, user.pairs
    own, message = shape(reply.text), shape(user.text)
    in_dialogue = (
        len(earlier_replies),
        own[0] - (shape(earlier_replies[-1].text)[0] if earlier_replies else own[0]),
        max((share_in(pairs, other.pairs) for other in earlier_replies), default=0.0),
        share_in(pairs, _all(earlier_replies)),
        share_in(pairs, asked),
        share_in(pairs, _all([*earlier_users, user])),
        share_in(asked, pairs),
        share_in(pairs, background),
        share_in(pairs, serves),
        share_in(pairs, misses),
        share_in(serves, pairs),
        share_in(misses, pairs),
        max((share_in(asked, other.pairs) for other in earlier_users), default=0.0),
        share_in(asked, serves),
        message[0],
        message[1],
        message[2],
        message[12],
    )
    needs = (float(moment.known.need == need) for need in NEEDS)
    classes = (float(moment.known.persona_class == kind) for kind in CLASSES)
    return np.array([*own, *in_dialogue, *needs, *classes], dtype=np.float64)


def _all(texts: list[Text]) -> NDArray[np.uint32]:
    return distinct(np.concatenate([text.pairs for text in texts])) if texts else np.empty(0, dtype=np.uint32)
