"""One dialogue between a policy and its simulated user: tokens, masks and the transcript, built together.

Masks hold by construction: a token is the policy's because it was sampled here, never because it was found again in rendered text.
A dialogue that cannot go on (simulator unreachable, context full) is a result with a reason, not an exception.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from components.dialogue.transcript import Dialogue, SimulatorTag, StopReason, Turn
from components.personas.persona import Persona
from components.policy.sampler import Sampler, SampleRequest
from components.policy.thinking import Said, split_thought
from components.simulator.emotion import EmotionRules, apply_change, stop_reason
from components.simulator.protocol import Simulator, SimulatorUnavailable, UserSession


class Chat(Protocol):
    """Conversation ↔ token ids; see components.policy.chat.ChatFormat."""

    @property
    def end_of_turn(self) -> int: ...
    def start(self, user: str) -> list[int]: ...
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
    max_reply_tokens: int
    max_context_tokens: int


@dataclass(frozen=True)
class Rollout:
    """A dialogue with its tokens. `completion_ids` is everything after the first prompt, both speakers.

    `is_policy_T` marks sampled tokens; `turn_T` is the 0-based turn a token belongs to; `logprob_T` is 0.0 on the user's tokens.
    """

    dialogue: Dialogue
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    is_policy_T: tuple[bool, ...]
    turn_T: tuple[int, ...]
    logprob_T: tuple[float, ...]
    well_formed: bool  # every policy turn had the format that was asked for


class _Tokens:
    """Grows the token side of a rollout, one speaker at a time."""

    def __init__(self, prompt_ids: list[int]) -> None:
        self.prompt_ids = tuple(prompt_ids)
        self.ids: list[int] = []
        self.is_policy: list[bool] = []
        self.turn: list[int] = []
        self.logprob: list[float] = []

    def add(self, ids: tuple[int, ...] | list[int], turn: int, logprobs: tuple[float, ...] | None = None) -> None:
        self.ids += ids
        self.is_policy += [logprobs is not None] * len(ids)
        self.turn += [turn] * len(ids)
        self.logprob += logprobs if logprobs is not None else [0.0] * len(ids)

    @property
    def context(self) -> tuple[int, ...]:
        return (*self.prompt_ids, *self.ids)


async def hold_dialogue(
    job: Job, session: UserSession, tag: SimulatorTag, sampler: Sampler, chat: Chat, speaking: Speaking, rules: EmotionRules
) -> Rollout:
    """Let policy and user talk until a stop rule applies. Never raises for a simulator or context failure: that is a Rollout
    whose dialogue has `stop_reason` failed, a readable `failure`, no final emotion, and only the turns that were appraised."""
    turns: list[Turn] = []
    emotion = rules.start
    well_formed = True
    tokens = _Tokens([])
    reason: StopReason | None = None
    failure: str | None = None
    try:
        user = await session.open()
        tokens = _Tokens(chat.start(user.text))
        while reason is None:
            number = len(turns)
            room = speaking.max_context_tokens - len(tokens.context)
            if room < speaking.max_reply_tokens:
                raise ContextFull(f"turn {number + 1}: the context holds {len(tokens.context)} of {speaking.max_context_tokens} tokens")
            sample = await sampler.sample(SampleRequest(job.dialogue_id, tokens.context, turn_seed(job, number), speaking.max_reply_tokens))
            tokens.add(sample.token_ids, number, sample.logprobs)
            if not sample.finished:
                tokens.add([chat.end_of_turn], number)
            said = split_thought(chat.decode(sample.token_ids), speaking.thinking)
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
        dialogue, tokens.prompt_ids, tuple(tokens.ids), tuple(tokens.is_policy), tuple(tokens.turn), tuple(tokens.logprob), well_formed
    )


class ContextFull(RuntimeError):
    """The next reply would not fit into the context any more."""


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
