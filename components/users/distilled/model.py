"""What was learned, as one value: heads, trees, calibration and guard; and how a dialogue is followed with it, reply by reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlver.components.domain.protocols import UnfamiliarUser
from rlver.components.users.distilled import features as columns
from rlver.components.users.distilled.features import Moment, measures
from rlver.components.users.distilled.guard import Guard, Unreadable
from rlver.components.users.distilled.heads import Calibration, Head, Trees
from rlver.components.users.distilled.ngrams import Text, read

CODE_VERSION = "distilled-1"  # raise it whenever the same folder could give another change
LEAST_USER_UNITS = 5  # a user who has said less is not yet told from anybody


@dataclass(frozen=True, eq=False)
class Distilled:
    """An appraiser that was learned. `by_words` reads the mood from the user's words; `by_emotion` is told it besides."""

    digest: str  # of everything in its folder that decides a change
    reply_head: Head
    user_head: Head
    by_words: Trees
    by_emotion: Trees
    words_calibration: Calibration
    emotion_calibration: Calibration
    guard: Guard
    usual: NDArray[np.float64]  # (columns): means over the recordings, what a reply is compared with when it is explained

    @property
    def version(self) -> str:
        """What a transcript says of its appraiser."""
        return f"appraiser={self.digest}"

    @property
    def reasons(self) -> int:
        return int(self.reply_head.weight.shape[2]) - 1


class Judgement(NamedTuple):
    """`expected` is before calibration, in points; `sure` the probability that the sign of `change` is right, `error` the root mean
    square error of `expected`."""

    change: int
    expected: float
    sure: float
    error: float
    row: NDArray[np.float64]
    unreadable: Unreadable | None


@dataclass
class FollowedDialogue:
    """One dialogue as the appraiser follows it. It remembers what the heads read of earlier replies and messages, and nothing else."""

    model: Distilled
    need: str | None
    _reply_scores: list[NDArray[np.float64]] = field(default_factory=list)
    _user_scores: list[NDArray[np.float64]] = field(default_factory=list)

    def judge(self, moment: Moment) -> Judgement:
        """The judgement of the moment's last reply; moments come in the order of the dialogue. Raises UnfamiliarUser."""
        model = self.model
        reply, earlier = read(moment.replies[-1]), [read(text) for text in moment.replies[:-1]]
        _refuse_strangers(model.guard, [read(text) for text in moment.users])
        self._reply_scores.append(model.reply_head.read(reply, self.need))
        self._user_scores.append(model.user_head.read(read(moment.users[-1]), None))
        row = columns.row(measures(moment), np.array(self._reply_scores), np.array(self._user_scores))
        told = moment.emotion is not None and moment.last_change is not None
        trees = model.by_emotion if told else model.by_words
        calibration = model.emotion_calibration if told else model.words_calibration
        seen = np.append(row, [moment.emotion, moment.last_change]) if told else row
        expected = float(trees.predict(seen[None].astype(np.float64))[0])
        unreadable = model.guard.unreadable(reply, earlier)
        change = calibration.change(expected)
        if unreadable:
            change = min(change, calibration.mildest) if unreadable.what == "said_before" else min(calibration.grid)
        chance = calibration.chance_positive(expected)
        return Judgement(change, expected, chance if change > 0 else 1 - chance, calibration.error(expected), row, unreadable)


def _refuse_strangers(guard: Guard, users: list[Text]) -> None:
    if sum(text.size for text in users) < LEAST_USER_UNITS:
        return
    known = guard.known_of_user(users)
    if known < guard.limits.user_known:
        raise UnfamiliarUser(
            f"the user is unlike those the appraiser was learned from: {known:.0%} of what they say occurs there, "
            f"at least {guard.limits.user_known:.0%} is needed"
        )
