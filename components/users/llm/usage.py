"""What an LLM user takes of its endpoint: calls, and tokens under stated assumptions. For plans; what was spent stands in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_PROMPT = {  # tokens before anything was said: instructions and persona
    "en": {"appraise": 2450, "speak": 3000, "combined": 3400},
    "zh": {"appraise": 1950, "speak": 2250, "combined": 2550},
}
_EXCHANGE = 200  # tokens a message and its reply add, quotation marks and names included
_ANSWER = {"appraise": 230, "speak": 260, "combined": 490}


@dataclass(frozen=True)
class Usage:
    calls: int
    tokens_in: int
    tokens_out: int

    def times(self, dialogues: int) -> Usage:
        return Usage(self.calls * dialogues, self.tokens_in * dialogues, self.tokens_out * dialogues)

    def plus(self, other: Usage) -> Usage:
        return Usage(self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)


def tokens_in(step: str, language: str, exchanges: int) -> int:
    """Of one question (appraise, speak or combined) after so many exchanges."""
    return _PROMPT[language][step] + _EXCHANGE * exchanges


def dialogue_usage(language: str, turns: int, combined: bool) -> dict[str, Usage]:
    """Of one dialogue that lasts `turns` turns, by step; the last reply is appraised, and nothing is said after it."""
    if combined:
        return {"combined": _usage("combined", language, range(1, turns + 1))}
    return {"appraise": _usage("appraise", language, range(1, turns + 1)), "speak": _usage("speak", language, range(1, turns))}


def _usage(step: str, language: str, exchanges: Iterable[int]) -> Usage:
    sizes = [tokens_in(step, language, count) for count in exchanges]
    return Usage(len(sizes), sum(sizes), _ANSWER[step] * len(sizes))
