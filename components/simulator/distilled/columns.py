"""The row that the trees read: measures, what the linear heads say of this reply and message, and what they said of earlier ones.

The heads' readings of earlier replies and messages stand in for memory: the user's words tell the mood, so no emotion is needed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from components.simulator.distilled import measures

USER_TARGETS = ("change", "emotion", "last_change")  # what the user's head reads from a message: what follows, where it stands, what was
EMOTIONS = ("emotion", "last_change")  # the two more columns of the trees that are told the emotion


@lru_cache(maxsize=4)
def names(reasons: int) -> tuple[str, ...]:
    """The columns, with `reasons` components of how users put their reasons."""
    return (
        *measures.NAMES,
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
    "form": ("length", "questions", "exclamations", "ends_asking", "lines", "bold", "list_items", "sentences", "commas", "emoji", "quotes",
             "brackets", "dots", "dashes"),
    "persona": ("need:", "class:"),
}  # fmt: skip


@lru_cache(maxsize=4)
def members(reasons: int) -> dict[str, NDArray[np.int64]]:
    """The columns of every group in which they are explained."""
    every = names(reasons)
    return {
        group: np.array([place for place, name in enumerate(every) if name.startswith(begins)], dtype=np.int64)
        for group, begins in GROUPS.items()
    }
