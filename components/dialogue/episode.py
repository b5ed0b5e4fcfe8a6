"""One dialogue between a policy and its simulated user: tokens, masks and the transcript, built together.

Masks hold by construction: a token is the policy's because it was sampled here, never because it was found again in rendered text.
A dialogue that cannot go on (simulator unreachable, context full) is a result with a reason, not an exception.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from components.dialogue.transcript import Dialogue, SimulatorTag, StopReason, Turn
from components.personas.persona import Persona
from components.policy.sampler import Sampler, SampleRequest
from components.policy.thinking import CLOSE, Said, split_thought
from components.simulator.emotion import EmotionRules, apply_change, stop_reason
from components.simulator.protocol import Simulator, SimulatorUnavailable, UserSession


class Chat(Protocol):
    """Conversation ↔ token ids; see components.policy.chat.ChatFormat."""

    @property
    def end_of_turn(self) -> int: ...
    def start(self, user: str, language: str) -> list[int]: ...
    def user_turn(self, user: str) -> list[int]: ...
    def decode(self, token_ids: tuple[int, ...]) -> str: ...
    def count(self, text: str) -> int: ...


@dataclass(frozen=True)
class Job:
    """A dialogue to be held. The id is globally unique and decides every random draw together with the seed.

    `simulator` is for a user of another kind than the others are.
    """

    dialogue_id: str
    persona: Persona
    seed: int
    simulator: Simulator | None = None


@dataclass(frozen=True)
class Speaking:
    """How the policy speaks: the same values for training and evaluation."""

    policy: str  # name that goes into the transcript
    thinking: bool
    strip_thoughts: bool  # the policy's own earlier thoughts leave its context
    max_reply_tokens: int
    max_context_tokens: int


@dataclass(frozen=True)
class Rollout:
    """A dialogue with its tokens. `completion_ids` is everything after the first prompt, both speakers.

    `is_policy_T` marks sampled tokens; `turn_T` is the 0-based turn a token belongs to; `logprob_T` is 0.0 on the user's tokens;
    `stays_T` marks tokens that were in the context of later turns: all of them, or all but the thoughts.
    """

    dialogue: Dialogue
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    is_policy_T: tuple[bool, ...]
    turn_T: tuple[int, ...]
    logprob_T: tuple[float, ...]
    stays_T: tuple[bool, ...]
    well_formed: bool  # every policy turn had the format that was asked for
    cut_off: int  # policy turns that ended at the limit of tokens


class _Tokens:
    """Grows the token side of a rollout, one speaker at a time."""

    def __init__(self, prompt_ids: list[int]) -> None:
        self.prompt_ids = tuple(prompt_ids)
        self.ids: list[int] = []
        self.is_policy: list[bool] = []
        self.turn: list[int] = []
        self.logprob: list[float] = []
        self.stays: list[bool] = []

    def add(self, ids: Sequence[int], turn: int, logprobs: Sequence[float] | None = None, forgotten: int = 0) -> None:
        """`logprobs` for the policy's tokens, of which the first `forgotten` leave the context after their turn."""
        self.ids += ids
        self.is_policy += [logprobs is not None] * len(ids)
        self.turn += [turn] * len(ids)
        self.logprob += logprobs if logprobs is not None else [0.0] * len(ids)
        self.stays += [index >= forgotten for index in range(len(ids))]

    @property
    def context(self) -> tuple[int, ...]:
        return (*self.prompt_ids, *(token for token, stays in zip(self.ids, self.stays, strict=True) if stays))


async def hold_dialogue(
    job: Job, session: UserSession, tag: SimulatorTag, sampler: Sampler, chat: Chat, speaking: Speaking, rules: EmotionRules
) -> Rollout:
    """Let policy and user talk until a stop rule applies. Never raises for a simulator or context failure: that is a Rollout
    whose dialogue has `stop_reason` failed, a readable `failure`, no final emotion, and only the turns that were appraised."""
    turns: list[Turn] = []
    emotion = rules.start
    well_formed = True
    cut_off = 0
    tokens = _Tokens([])
    reason: StopReason | None = None
    failure: str | None = None
    try:
        user = await session.open()
        tokens = _Tokens(chat.start(user.text, job.persona.language))
        while reason is None:
            number = len(turns)
            room = speaking.max_context_tokens - len(tokens.context)
            if room < speaking.max_reply_tokens:
                raise ContextFull(f"turn {number + 1}: the context holds {len(tokens.context)} of {speaking.max_context_tokens} tokens")
            sample = await sampler.sample(SampleRequest(job.dialogue_id, tokens.context, turn_seed(job, number), speaking.max_reply_tokens))
            said = split_thought(chat.decode(sample.token_ids), speaking.thinking)
            tokens.add(
                sample.token_ids, number, sample.logprobs, thought_tokens(sample.token_ids, said, chat) if speaking.strip_thoughts else 0
            )
            if not sample.finished:
                cut_off += 1
                tokens.add([chat.end_of_turn], number)
            well_formed = well_formed and said.well_formed
            appraisal = await session.appraise(said.reply)
            emotion = apply_change(emotion, appraisal.change)
            turns.append(_turn(user.text, said, chat).model_copy(update={"emotion": emotion, "appraisal": appraisal, "cue": user.cue}))
            reason = stop_reason(emotion, len(turns), wants_to_end=False, rules=rules)
            if reason is None:
                user = await session.speak(emotion)
                reason = stop_reason(emotion, len(turns), user.wants_to_end, rules)
            if reason is None:
                tokens.add(chat.user_turn(user.text), number + 1)
    except (SimulatorUnavailable, ContextFull) as error:
        reason, failure = StopReason.FAILED, f"{type(error).__name__}: {error}"
    finally:
        sampler.forget(job.dialogue_id)
    dialogue = Dialogue(
        dialogue_id=job.dialogue_id,
        persona_id=job.persona.persona_id,
        hidden_need=job.persona.hidden_need.value,
        policy=speaking.policy,
        seed=job.seed,
        simulator=tag,
        emotion_start=rules.start,
        emotion_final=None if failure else emotion,
        stop_reason=reason,
        failure=failure,
        turns=tuple(turns),
    )
    return Rollout(
        dialogue=dialogue,
        prompt_ids=tokens.prompt_ids,
        completion_ids=tuple(tokens.ids),
        is_policy_T=tuple(tokens.is_policy),
        turn_T=tuple(tokens.turn),
        logprob_T=tuple(tokens.logprob),
        stays_T=tuple(tokens.stays),
        well_formed=well_formed,
        cut_off=cut_off,
    )


class ContextFull(RuntimeError):
    """The next reply would not fit into the context any more."""


def thought_tokens(token_ids: tuple[int, ...], said: Said, chat: Chat) -> int:
    """How many tokens at the start of a turn the user never saw: the thought with its closing tag, or all but the end of a turn
    without a reply. A token that closes the thought and begins the reply counts as thought."""
    spoken = len(token_ids) - token_ids.count(chat.end_of_turn)
    return bisect_left(range(spoken), True, key=lambda count: CLOSE in chat.decode(token_ids[:count])) if said.reply else spoken


def turn_seed(job: Job, turn: int) -> int:
    """The seed of one policy turn: a function of seed, dialogue id and turn only, so batching cannot change it."""
    return int.from_bytes(hashlib.sha256(f"{job.seed}|{job.dialogue_id}|{turn}".encode()).digest()[:7], "big")


def _turn(user: str, said: Said, chat: Chat) -> Turn:
    return Turn(
        user=user,
        assistant=said.reply,
        think=said.think,
        reply_tokens=chat.count(said.reply),
        think_tokens=chat.count(said.think) if said.think else 0,
    )
