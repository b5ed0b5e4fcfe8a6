"""What misread acts do to the reward: how the scripted user takes each labelled reply, by what a person says the reply does.

The user is one whose need nobody knows, the reply its first: as in a foreign transcript. Such a user should rise at any act that can
serve a need and fall when it is hurt; what is overlooked reads as empty talk, and it falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.evaluation.act_detection import KINDS, LabelledReply
from components.evaluation.statistics import Estimated, Interval, cluster_bootstrap, wilson
from components.simulator.emotion import LARGEST_CHANGE
from components.simulator.scripted.appraiser import Listener, appraise
from components.simulator.scripted.effects import Difficulty

_STRANGER = Listener(need=None)
_CHANGES = Interval(-LARGEST_CHANGE, LARGEST_CHANGE)
SERVES, HURTS, POLITE, NOTHING = "serves a need, hurts nobody", "hurts", "is polite, no more", "does nothing"


@dataclass(frozen=True)
class Consequence:
    """How the replies that a person describes as `reply` are taken: shares after which the emotion rises or falls, and the mean change."""

    reply: str
    rises: Estimated
    falls: Estimated
    change: Estimated  # points of -10..10


def consequences(rows: Sequence[LabelledReply], difficulty: Difficulty, samples: int, seed: int) -> list[Consequence]:
    """One for each description that occurs; the interval of the change is resampled by user message."""
    changes: dict[str, list[tuple[str, int]]] = {kind: [] for kind in (SERVES, HURTS, POLITE, NOTHING)}
    for row in rows:
        changes[_described(row.acts)].append((row.user, appraise(_STRANGER, difficulty, [], row.user, row.reply).change))
    return [_consequence(kind, of_kind, samples, seed) for kind, of_kind in changes.items() if of_kind]


def _described(acts: frozenset[str]) -> str:
    if not acts.isdisjoint(KINDS["harmful"]):
        return HURTS
    if not acts.isdisjoint(KINDS["serving"]):
        return SERVES
    return POLITE if acts else NOTHING


def _consequence(kind: str, changes: Sequence[tuple[str, int]], samples: int, seed: int) -> Consequence:
    by_message: dict[str, list[float]] = {}
    for message, change in changes:
        by_message.setdefault(message, []).append(change)
    n = len(changes)
    rises, falls = (sum(change * sign > 0 for _, change in changes) / n for sign in (1, -1))
    mean = cluster_bootstrap(by_message, samples, seed, _CHANGES)
    return Consequence(kind, Estimated(rises, wilson(rises, n), n), Estimated(falls, wilson(falls, n), n), mean)
