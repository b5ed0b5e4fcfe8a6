"""Many dialogues at once: one coroutine each, bounded concurrency, results in the order of the jobs.

Failed dialogues come back like the others. What share of failures is too many is the caller's parameter; `check_failures` says so
with the reasons.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from components.dialogue.episode import Job, Rollout, hold_dialogue
from components.dialogue.transcript import Dialogue
from components.policy.protocol import Policy
from components.simulator.emotion import EmotionRules
from components.simulator.protocol import Simulator


class TooManyFailures(RuntimeError):
    """More dialogues failed than allowed; the message counts them and gives the commonest reasons."""


async def hold_dialogues(
    jobs: Sequence[Job],
    simulator: Simulator,
    policy: Policy,
    rules: EmotionRules,
    concurrency: int,
    on_finished: Callable[[Rollout], None] = lambda rollout: None,
) -> list[Rollout]:
    """Hold all dialogues, at most `concurrency` at a time. Raises ValueError when two jobs share an id."""
    shared = [name for name, count in Counter(job.dialogue_id for job in jobs).items() if count > 1]
    if shared:
        raise ValueError(f"dialogue ids must be unique, but {shared[0]!r} appears more than once")
    slots = asyncio.Semaphore(concurrency)

    async def one(job: Job) -> Rollout:
        async with slots:
            user = job.simulator or simulator
            session = user.session(job.persona, job.seed)
            rollout = await hold_dialogue(job, session, user.tag, policy, rules)
        on_finished(rollout)
        return rollout

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(job)) for job in jobs]
    except ExceptionGroup as group_error:  # one cause stops all; callers expect it as itself
        raise _first(group_error) from group_error
    return [task.result() for task in tasks]


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def check_failures(rollouts: Sequence[Rollout], max_failure_rate: float) -> None:
    """Raise TooManyFailures when the share of failed dialogues is above `max_failure_rate` (0..1)."""
    check_failed([rollout.dialogue for rollout in rollouts], max_failure_rate)


def check_failed(dialogues: Sequence[Dialogue], max_failure_rate: float) -> None:
    """The same for dialogues whose tokens nobody kept."""
    reasons = Counter(dialogue.failure for dialogue in dialogues if dialogue.failure)
    failed = sum(reasons.values())
    if dialogues and failed > max_failure_rate * len(dialogues):
        commonest = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        raise TooManyFailures(f"{failed} of {len(dialogues)} dialogues failed (allowed: {max_failure_rate:.0%}): {commonest}")
