"""What the appraiser may look at: who is talking, what was said so far, and the reply. Nothing that comes later is here to be seen.

The row that the trees read: plain measures of a reply in its dialogue, each of which can be said in words; what the linear heads say of
this reply and message; and what they said of earlier ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass
from rlver.components.personas.profiles import CLASS_OF, scene_parts
from rlver.components.users.distilled.ngrams import Text, distinct, read, share_in

NEEDS = tuple(need.value for need in HiddenNeed)
CLASSES = tuple(kind.value for kind in PersonaClass)

Original = Mapping[str, Any] | None  # an imported record, see Dialogue.original


@dataclass(frozen=True)
class Known:
    """What is known of the user. "" and None mean that nobody knows; nothing is guessed."""

    need: str | None = None
    persona_class: str | None = None
    background: str = ""
    serves: str = ""
    misses: str = ""


@dataclass(frozen=True)
class Moment:
    """One reply in its dialogue."""

    known: Known
    users: tuple[str, ...]  # the user's messages, the one replied to last
    replies: tuple[str, ...]  # the assistant's, the one to be appraised last


def known_of(persona: Persona) -> Known:
    return Known(
        persona.hidden_need.value,
        persona.persona_class.value,
        persona.background,
        persona.reactions.get("serves", persona.reactions.get("text", "")),
        persona.reactions.get("misses", persona.reactions.get("text", "")),
    )


def known_from(need: str | None, original: Original, persona: Persona | None) -> Known:
    """From the persona's record, else from the imported SAGE record of a dialogue, else its recorded need alone."""
    if persona is not None:
        return known_of(persona)
    known, original = Known(need if need in NEEDS else None), original or {}  # of a need that nobody knows, nothing was learned
    scene, kind = original.get("scene"), original.get("character")
    if isinstance(kind, str) and kind in CLASS_OF:
        known = replace(known, persona_class=CLASS_OF[kind].value)
    if not isinstance(scene, str):
        return known
    background, reactions = scene_parts(scene)
    rules = reactions.get("text", "")
    return replace(known, background=background, serves=reactions.get("serves", rules), misses=reactions.get("misses", rules))


def moments_of(known: Known, users: Sequence[str], replies: Sequence[str]) -> list[Moment]:
    """A moment for every reply."""
    return [Moment(known, tuple(users[: turn + 1]), tuple(replies[: turn + 1])) for turn in range(len(replies))]


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


USER_TARGETS = ("change", "emotion", "last_change")  # what the user's head reads from a message: what follows, where it stands, what was


@lru_cache(maxsize=4)
def names(reasons: int) -> tuple[str, ...]:
    """The columns, with `reasons` components of how users put their reasons."""
    return (
        *NAMES,
        "reply:change",
        *(f"reply:reason {number}" for number in range(reasons)),
        *(f"message:{target}" for target in USER_TARGETS),
        "earlier reply:last",
        "earlier reply:mean",
        *(f"earlier message:{target} last" for target in USER_TARGETS),
        *(f"earlier message:{target} mean" for target in USER_TARGETS),
    )


def row(measured: NDArray[np.float64], reply_scores: NDArray[np.float64], user_scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns) of the last of `reply_scores` (turns, 1 + reasons) and `user_scores` (turns, 3) of one dialogue so far."""
    before_reply, before_user = reply_scores[:-1, 0], user_scores[:-1]
    nothing = np.zeros(len(USER_TARGETS))
    return np.concatenate(
        [
            measured,
            reply_scores[-1],
            user_scores[-1],
            [before_reply[-1], before_reply.mean()] if len(before_reply) else [0.0, 0.0],
            before_user[-1] if len(before_user) else nothing,
            before_user.mean(axis=0) if len(before_user) else nothing,
        ]
    )


GROUPS = {
    "reply": ("reply:",),
    "mood": ("message:", "earlier message:", "message_length", "user_"),
    "earlier_replies": ("earlier reply:", "turn"),
    "redundancy": ("repeats_", "longer_than_before"),
    "specificity": ("echoes_", "uses_", "message_taken_up", "message_on_", "what_"),
    "form": _SHAPE,
    "persona": ("need:", "class:"),
}


@lru_cache(maxsize=4)
def members(reasons: int) -> dict[str, NDArray[np.int64]]:
    """The columns of every group in which they are explained."""
    every = names(reasons)
    return {
        group: np.array([place for place, name in enumerate(every) if name.startswith(begins)], dtype=np.int64)
        for group, begins in GROUPS.items()
    }
