"""One dialogue between a policy and its simulated user: the transcript and the tokens, built together.

A dialogue that cannot go on (user or policy unreachable, context full) is a result with a reason, not an exception.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.dialogue.transcript import Dialogue, SimulatorTag, StopReason, Turn
from components.personas.persona import Persona
from components.policy.protocol import ContextFull, Policy, PolicyUnavailable
from components.simulator.emotion import EmotionRules, apply_change, stop_reason
from components.simulator.protocol import Simulator, SimulatorUnavailable, UserSession


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
class Rollout:
    """A dialogue with its tokens (see components.policy.protocol.Tokens), which a policy that gives text alone does not have."""

    dialogue: Dialogue
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    is_policy_T: tuple[bool, ...]
    turn_T: tuple[int, ...]
    logprob_T: tuple[float, ...]
    stays_T: tuple[bool, ...]
    well_formed: bool  # every policy turn had the format that was asked for
    cut_off: int  # policy turns that ended at the limit of tokens


async def hold_dialogue(job: Job, session: UserSession, tag: SimulatorTag, policy: Policy, rules: EmotionRules) -> Rollout:
    """Let policy and user talk until a stop rule applies. Never raises for a failure of user, policy or context: that is a Rollout
    whose dialogue has `stop_reason` failed, a readable `failure`, no final emotion, and only the turns that were appraised."""
    turns: list[Turn] = []
    emotion = rules.start
    well_formed = True
    cut_off = 0
    reason: StopReason | None = None
    failure: str | None = None
    supporter = policy.session(job.dialogue_id, job.seed, job.persona.language)
    try:
        user = await session.open()
        while reason is None:
            reply = await supporter.reply(user.text)
            cut_off += reply.cut_off
            well_formed = well_formed and reply.said.well_formed
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
        failure=failure,
        turns=tuple(turns),
    )
    return Rollout(dialogue, *supporter.tokens, well_formed=well_formed, cut_off=cut_off)
