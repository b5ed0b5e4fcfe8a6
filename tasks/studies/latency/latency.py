"""What a reply costs in time, and what of it is thinking: one person is served at a time, so a reply waits for nobody else's.

Nobody reads a thought, and the reply comes after it: thinking is waiting. Its seconds are its share of the tokens of that very reply,
because a model generates at much the same speed whether it thinks or speaks; only a policy that counts its tokens has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlver.components.domain.protocols import Policy, PolicySession, Reply, Tokens
from rlver.components.scoring.behaviour import known, unknown
from rlver.components.scoring.statistics import Interval, by_cluster, cluster_bootstrap
from rlver.tasks.runtime.brackets import in_brackets

_COUNTS = Interval(0.0, math.inf)
NO_TOKENS = "this policy does not count its tokens"


class Timed(NamedTuple):
    """One reply: the seconds until it was whole, and its tokens; None where nobody knows them."""

    dialogue_id: str
    seconds: float
    think_tokens: int | None
    reply_tokens: int | None

    @property
    def tokens(self) -> int | None:
        return None if self.reply_tokens is None else self.reply_tokens + (self.think_tokens or 0)

    @property
    def thought_seconds(self) -> float | None:
        return None if not self.tokens else self.seconds * (self.think_tokens or 0) / self.tokens


@dataclass(frozen=True)
class TimedPolicy:
    """A policy whose replies are timed; otherwise it is the one inside. `clock` gives seconds."""

    policy: Policy
    clock: Callable[[], float]
    replies: list[Timed] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.policy.name

    def start(self) -> None:
        self.policy.start()

    async def close(self) -> None:
        await self.policy.close()

    def session(self, dialogue_id: str, seed: int, language: str) -> PolicySession:
        return _TimedSession(self.policy.session(dialogue_id, seed, language), dialogue_id, self)


@dataclass(frozen=True)
class _TimedSession:
    session: PolicySession
    dialogue_id: str
    of: TimedPolicy

    async def reply(self, user: str) -> Reply:
        began = self.of.clock()
        reply = await self.session.reply(user)
        self.of.replies.append(Timed(self.dialogue_id, self.of.clock() - began, reply.think_tokens, reply.reply_tokens))
        return reply

    @property
    def tokens(self) -> Tokens:
        return self.session.tokens

    def close(self) -> None:
        self.session.close()


def latency_of(replies: Sequence[Timed], persona_of: Mapping[str, str], samples: int, seed: int) -> dict[str, Any]:
    """Means over replies as {value, ci95, n}, n being personas; `persona_of` a dialogue id. Raises ValueError with fewer than two personas."""
    if len({persona_of[reply.dialogue_id] for reply in replies}) < 2:
        raise ValueError("the time of a reply needs at least two personas: one says nothing about the spread")

    def mean(measure: Callable[[Timed], float | None]) -> dict[str, Any]:
        values = by_cluster((persona_of[one.dialogue_id], value) for one in replies if (value := measure(one)) is not None)
        return known(cluster_bootstrap(values, samples, seed, _COUNTS)) if values else unknown(NO_TOKENS)

    return {
        "replies": len(replies),
        "seconds": mean(lambda reply: reply.seconds),
        "thought_seconds": mean(lambda reply: reply.thought_seconds),
        "tokens": mean(lambda reply: reply.tokens),
        "thought_tokens": mean(lambda reply: None if reply.tokens is None else reply.think_tokens or 0),
        "seconds_per_token": mean(lambda reply: reply.seconds / reply.tokens if reply.tokens else None),
    }


_LINES = (
    ("seconds", "seconds a reply", 3),
    ("thought_seconds", "of which thinking", 3),
    ("tokens", "tokens a reply", 1),
    ("thought_tokens", "of which thinking", 1),
    ("seconds_per_token", "seconds a token", 4),
)


def lines(found: Mapping[str, Any]) -> list[str]:
    return [f"{heading:<18} {_estimate(found[name], decimals)}" for name, heading, decimals in _LINES]


def _estimate(one: Mapping[str, Any], decimals: int) -> str:
    if one["value"] is None:
        return f"unknown: {one['reason']}"
    return f"{one['value']:.{decimals}f}  {in_brackets(one['ci95'], f'.{decimals}f')}"
