"""Dialogues of a scripted policy with a language model as the user."""

from __future__ import annotations

import asyncio

from fakes import FakeSampler, LetterChat
from scripted_endpoint import TWO_CALLS, ScriptedEndpoint

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Job, run_episode
from rlver.components.users.llm.kind import LLMUserSection
from rlver.components.users.llm.simulator import LLMSimulator

RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=3)
SPEAKING = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)


def policy() -> TokenPolicy:
    return TokenPolicy(FakeSampler(), LetterChat(), SPEAKING)


def simulator(endpoint: ScriptedEndpoint, parameters: LLMUserSection = TWO_CALLS, difficulty: str = "vanilla") -> LLMSimulator:
    return LLMSimulator(endpoint, difficulty, parameters, RULES.start)


def hold(user: LLMSimulator, persona: Persona, rules: EmotionRules = RULES, seed: int = 5) -> Dialogue:
    session = user.session(persona, seed)
    job = Job("d", persona, seed)
    return asyncio.run(run_episode(job, session, user.tag, policy(), rules)).dialogue


def user_messages(endpoint: ScriptedEndpoint) -> list[str]:
    return [request.messages[-1].content for request in endpoint.requests]
