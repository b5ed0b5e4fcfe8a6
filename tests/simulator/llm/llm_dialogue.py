"""Dialogues of a scripted policy with a language model as the user."""

from __future__ import annotations

import asyncio

from fakes import FakeSampler, LetterChat
from scripted_endpoint import TWO_CALLS, ScriptedEndpoint

from components.dialogue.episode import Job, hold_dialogue
from components.dialogue.transcript import Dialogue
from components.personas.persona import Persona
from components.policy.token_policy import Speaking, TokenPolicy
from components.simulator.emotion import EmotionRules
from components.simulator.llm.parameters import LLMUserParameters
from components.simulator.llm.simulator import LLMSimulator

RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=3)
SPEAKING = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)


def policy() -> TokenPolicy:
    return TokenPolicy(FakeSampler(), LetterChat(), SPEAKING)


def simulator(endpoint: ScriptedEndpoint, parameters: LLMUserParameters = TWO_CALLS, difficulty: str = "vanilla") -> LLMSimulator:
    return LLMSimulator(endpoint, difficulty, parameters, RULES.start)


def hold(user: LLMSimulator, persona: Persona, rules: EmotionRules = RULES, seed: int = 5) -> Dialogue:
    session = user.session(persona, seed)
    job = Job("d", persona, seed)
    return asyncio.run(hold_dialogue(job, session, user.tag, policy(), rules)).dialogue


def user_messages(endpoint: ScriptedEndpoint) -> list[str]:
    return [request.messages[-1].content for request in endpoint.requests]
