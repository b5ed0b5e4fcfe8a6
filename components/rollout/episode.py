"""One dialogue between a policy and its simulated user: the transcript and the tokens, built together. And many dialogues at once.

A dialogue that cannot go on is a result with a reason, not an exception: unscorable where user or policy cannot be reached, scored like any
other where the policy has filled its context or says nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import ContextFull, Policy, PolicyUnavailable, Simulator, SimulatorUnavailable, UserSession
from rlver.components.domain.transcript import Dialogue, SimulatorTag, StopReason, Turn

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """A dialogue to be held. The id is globally unique and decides every random draw together with the seed.

    `simulator` is for a user of another kind than the others are.
    """

    dialogue_id: str
    persona: Persona
    seed: int
    simulator: Simulator | None = None


Seen = tuple[int, bool, float]  # a token, whether the policy said it there, and its log-probability


@dataclass(frozen=True)
class Rollout:
    """A dialogue with its tokens (see rlver.components.domain.protocols.Tokens), which a policy that gives text alone does not have."""

    dialogue: Dialogue
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    is_policy_T: tuple[bool, ...]
    turn_T: tuple[int, ...]
    logprob_T: tuple[float, ...]
    in_later_context_T: tuple[bool, ...]
    malformed_turn: int | None  # the first policy turn (from 0) without the format that was asked for; None: all have it
    cut_off_turns: tuple[int, ...]  # policy turns (from 0) that ended at the limit of tokens

    @property
    def well_formed(self) -> bool:
        return self.malformed_turn is None

    @property
    def cut_off(self) -> int:
        return len(self.cut_off_turns)

    def seen(self, turn: int | None = None) -> list[Seen]:
        """What stands after the first prompt, up to the policy's last token: of the whole dialogue, or of `turn` (from 0) alone.

        Of a turn: what the policy had read when it spoke in it, and what it said. A thought that left the context is in its own turn alone.
        """
        tokens = zip(self.completion_ids, self.turn_T, self.is_policy_T, self.logprob_T, self.in_later_context_T, strict=True)
        found = [
            (token, said and turn in (None, own), logprob)
            for token, own, said, logprob, stays in tokens
            if turn in (None, own) or (turn is not None and own < turn and stays)
        ]
        while found and not found[-1][1]:
            found.pop()
        return found


async def run_episode(job: Job, session: UserSession, tag: SimulatorTag, policy: Policy, rules: EmotionRules) -> Rollout:
    """Let policy and user talk until a stop rule applies, or the policy's context is full.

    Never raises for a failure of user or policy, nor for a context too small for the first reply: that is a Rollout whose dialogue has
    `stop_reason` failed, a readable `error`, no final emotion, and only the turns that were appraised.
    """
    turns: list[Turn] = []
    emotion = rules.start
    malformed_turn: int | None = None
    cut_off_turns: list[int] = []
    reason: StopReason | None = None
    failure: str | None = None
    supporter = policy.session(job.dialogue_id, job.seed, job.persona.language)
    try:
        user = await session.open()
        while reason is None:
            reply = await supporter.reply(user.text)
            if reply.cut_off:
                cut_off_turns.append(len(turns))
            if malformed_turn is None and not reply.said.well_formed:
                malformed_turn = len(turns)
            appraisal = await session.appraise(reply.said.reply)
            emotion = apply_change(emotion, appraisal.change)
            turns.append(
                Turn(
                    user=user.text,
                    assistant=reply.said.reply,
                    think=reply.said.think,
                    emotion=emotion,
                    appraisal=appraisal,
                    cue=user.cue,
                    reply_tokens=reply.reply_tokens,
                    think_tokens=reply.think_tokens,
                )
            )
            reason = stop_reason(emotion, len(turns), wants_to_end=False, rules=rules)
            if reason is None:
                user = await session.speak(emotion)
                reason = stop_reason(emotion, len(turns), user.wants_to_end, rules)
    except (SimulatorUnavailable, PolicyUnavailable, ContextFull) as error:
        if isinstance(error, ContextFull) and turns:
            reason = StopReason.CONTEXT_FULL
        else:
            reason, failure = StopReason.FAILED, f"{type(error).__name__}: {error}"
    finally:
        supporter.close()
    dialogue = Dialogue(
        dialogue_id=job.dialogue_id,
        persona_id=job.persona.persona_id,
        hidden_need=job.persona.hidden_need.value,
        policy=policy.name,
        seed=job.seed,
        simulator=tag,
        emotion_start=rules.start,
        emotion_final=None if failure else emotion,
        stop_reason=reason,
        error=failure,
        turns=tuple(turns),
    )
    return Rollout(dialogue, *supporter.tokens, malformed_turn=malformed_turn, cut_off_turns=tuple(cut_off_turns))


class TooManyFailures(RuntimeError):
    """More dialogues failed than allowed; the message counts them and gives the commonest reasons."""


async def run_episodes(
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
            rollout = await run_episode(job, session, user.tag, policy, rules)
        on_finished(rollout)
        return rollout

    return await together(one(job) for job in jobs)


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. One error stops all, and comes as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as group_error:
        raise _first(group_error) from group_error
    return [task.result() for task in tasks]


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def check_failed(dialogues: Sequence[Dialogue], max_failure_rate: float) -> None:
    """Raise TooManyFailures when the share of failed dialogues is above `max_failure_rate` (0..1)."""
    reasons = Counter(dialogue.error for dialogue in dialogues if dialogue.error)
    failed = sum(reasons.values())
    if dialogues and failed > max_failure_rate * len(dialogues):
        commonest = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        raise TooManyFailures(f"{failed} of {len(dialogues)} dialogues failed (allowed: {max_failure_rate:.0%}): {commonest}")
