"""The leaderboard: policies by their final emotion, every row measured here with its intervals; published rows stand apart.

A score belongs to the user who gave it. Rows of different users stand in one table for orientation; only rows of one user compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.dialogue.transcript import Dialogue
from components.evaluation import sentient, statistics
from components.evaluation.statistics import Estimated


@dataclass(frozen=True)
class Standing:
    """One policy as measured here: no row without intervals, the type sees to it. Emotion in 0..100, rates in 0..1."""

    policy: str
    user: str
    source: str
    dialogues: int  # scorable ones
    unscorable: int
    emotion: Estimated
    success: Estimated
    failure: Estimated


def standing(dialogues: Sequence[Dialogue], source: str, bootstrap_samples: int, seed: int) -> Standing:
    """The row of one transcript. Raises ValueError when it holds several policies or users, or no scorable dialogue."""
    policies = sorted({dialogue.policy for dialogue in dialogues})
    users = sorted({user_of(dialogue) for dialogue in dialogues})
    for what, found in (("policies", policies), ("users", users)):
        if len(found) > 1:
            raise ValueError(f"{source}: a row is one policy with one kind of user, got the {what} {', '.join(found)}")
    scorable = [dialogue for dialogue in dialogues if dialogue.emotion_final is not None]
    if not scorable:
        raise ValueError(f"{source}: none of {len(dialogues)} dialogues can be scored")
    return Standing(
        policy=policies[0],
        user=users[0],
        source=source,
        dialogues=len(scorable),
        unscorable=len(dialogues) - len(scorable),
        emotion=statistics.cluster_bootstrap(
            sentient.by_persona(scorable, sentient.final_emotion), bootstrap_samples, seed, sentient.EMOTIONS
        ),
        success=statistics.proportion(sentient.by_persona(scorable, sentient.is_success)),
        failure=statistics.proportion(sentient.by_persona(scorable, sentient.is_failure)),
    )


def user_of(dialogue: Dialogue) -> str:
    tag = dialogue.simulator
    return f"{tag.kind}/{tag.difficulty}/{tag.version}"
