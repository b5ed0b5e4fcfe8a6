"""A policy behind a chat endpoint: it gives text, so it can be talked with and scored, not trained.

The model's own thought is whatever the server calls reasoning, and whatever it wrote in front of a closing tag. It never reaches the
user and, unless thoughts were asked for and are kept, is not read again by the model either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlver.components.domain.protocols import ContextFull, PolicyUnavailable, Reply, Tokens, turn_seed
from rlver.components.domain.thinking import said_in
from rlver.components.endpoint.chat import (
    ChatAnswer,
    ChatEndpoint,
    ChatRequest,
    EndpointUnavailable,
    Message,
    NotRecorded,
    RequestRefused,
    RequestTooLong,
)

SILENCE = "…"  # what a later request has of an empty reply: some servers refuse an empty message
_SEEDS = 2**31  # some servers take no larger seed


@dataclass(frozen=True)
class ChatPolicy:
    """Replies by asking `model` for the next message of the dialogue."""

    endpoint: ChatEndpoint
    model: str
    system_of: Mapping[str, str]  # by language of the user
    thinking: bool  # whether they ask for a thought in tags
    strip_thoughts: bool
    temperature: float
    top_p: float
    max_reply_tokens: int  # thoughts included, where the server counts them

    @property
    def name(self) -> str:
        return self.model

    def start(self) -> None:
        """Its weights are the server's."""

    async def close(self) -> None:
        """Its connection is opened and closed by who made it."""

    def session(self, dialogue_id: str, seed: int, language: str) -> ChatSession:
        """Raises ValueError for a language without a system message."""
        if language not in self.system_of:
            raise ValueError(f"the policy has no system message for users who speak {language!r}; it has {', '.join(self.system_of)}")
        return ChatSession(self, dialogue_id, seed, self.system_of[language])


class ChatSession:
    """The messages of one dialogue."""

    tokens = Tokens()

    def __init__(self, policy: ChatPolicy, dialogue_id: str, seed: int, system: str) -> None:
        self._policy = policy
        self._dialogue_id = dialogue_id
        self._seed = seed
        self._turns = 0
        self._messages: tuple[Message, ...] = (Message("system", system),)

    async def reply(self, user: str) -> Reply:
        """An empty answer is an empty reply. Raises ContextFull when the dialogue has become too long for the model, PolicyUnavailable when
        it gets no answer; what would meet every dialogue (EndpointRefused, BudgetExceeded) passes and must stop the run."""
        policy = self._policy
        messages = (*self._messages, Message("user", user))
        request = ChatRequest(
            model=policy.model,
            messages=messages,
            temperature=policy.temperature,
            top_p=policy.top_p,
            max_tokens=policy.max_reply_tokens,
            seed=turn_seed(self._dialogue_id, self._seed, self._turns) % _SEEDS,
        )
        answer = await self._ask(request)
        said = said_in(answer.text, policy.thinking, answer.reasoning)
        kept = answer.text if policy.thinking and not policy.strip_thoughts else said.reply
        self._messages = (*messages, Message("assistant", kept if kept.strip() else SILENCE))
        self._turns += 1
        return Reply(said, answer.finish_reason == "length", reply_tokens=None, think_tokens=None)

    def close(self) -> None:
        """The server keeps nothing."""

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        turn = f"turn {self._turns + 1}"
        try:
            answer = await self._policy.endpoint.chat(request)
        except RequestTooLong as error:
            raise ContextFull(f"{turn}: {error}") from error
        except (EndpointUnavailable, RequestRefused, NotRecorded) as error:
            raise PolicyUnavailable(f"{turn}: {error}") from error
        if answer.finish_reason == "content_filter":
            raise PolicyUnavailable(f"{turn}: {self._policy.model!r} or a filter in front of it refused to reply (content_filter)")
        return answer
