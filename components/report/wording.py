"""Numbers and names as a reader sees them. None becomes a dash: not measured is not zero.

The published rows: RLVER paper, Tables 1 and 3; SAGE paper, Table 3. Another user, so the shape compares, the level does not.
"""

from __future__ import annotations

from typing import NamedTuple

from rlver.components.domain.emotion import FAILURE, SUCCESS
from rlver.components.domain.transcript import Dialogue, StopReason

DASH = "–"
MINUS = "\u2212"
OUTCOMES = ("success", "in between", "failure", "unscorable")
_ENDINGS = {
    StopReason.EMOTION_CEILING: "the user left content",
    StopReason.EMOTION_FLOOR: "the user gave up",
    StopReason.TURN_LIMIT: "the turn limit was reached",
    StopReason.GOODBYE: "the user said goodbye",
    StopReason.CONTEXT_FULL: "the context was full",
    StopReason.FAILED: "the dialogue failed",
}


def number(value: float | None, decimals: int = 1) -> str:
    """12.3, with a true minus sign; never a minus zero."""
    if value is None:
        return DASH
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float | None, decimals: int = 1) -> str:
    """+12.3 or −12.3; a rounded zero has no sign."""
    text = number(value, decimals)
    return text if value is None or text.startswith(MINUS) or float(text) == 0 else f"+{text}"


def percent(value: float | None) -> str:
    """A rate in 0..1 as whole per cent."""
    return DASH if value is None else f"{100 * value:.0f}%"


def interval(ends: tuple[float, float] | None, decimals: int = 1) -> str:
    """The two ends of an interval, or nothing."""
    return "" if ends is None else f"{number(ends[0], decimals)} to {number(ends[1], decimals)}"


def signed_interval(ends: tuple[float, float] | None, decimals: int = 1) -> str:
    """The two ends of an interval of a difference, or nothing."""
    return "" if ends is None else f"{signed(ends[0], decimals)} to {signed(ends[1], decimals)}"


def percent_interval(ends: tuple[float, float] | None) -> str:
    """The two ends of an interval of a rate, or nothing."""
    return "" if ends is None else f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f}%"


def readable(name: str | None) -> str:
    """deep_empathy → Deep empathy; trait:suspicious → Trait: suspicious."""
    if not name:
        return "Unknown"
    words = name.replace("_", " ").replace(":", ": ")
    return words[0].upper() + words[1:]


def outcome(dialogue: Dialogue) -> str:
    """One of OUTCOMES: by the final emotion, or unscorable when the dialogue failed."""
    if dialogue.emotion_final is None:
        return "unscorable"
    if dialogue.emotion_final >= SUCCESS:
        return "success"
    return "failure" if dialogue.emotion_final < FAILURE else "in between"


def ending(dialogue: Dialogue) -> str:
    """Why and when it ended, as a clause."""
    turns = len(dialogue.turns)
    return f"{_ENDINGS[dialogue.stop_reason]} after {turns} turn{'' if turns == 1 else 's'}"


SOURCE = "published, Qwen2.5-7B, DeepSeek-V3 user; no CI was published"


class PublishedRow(NamedTuple):
    """Mean final emotion in 0..100; rates in 0..1."""

    name: str
    emotion_mean: float
    success_rate: float
    failure_rate: float


class TrainedWith(NamedTuple):
    """A row of Table 3 (PPO): mean final emotion by the user a policy was trained with and by its prompt."""

    evaluated_on: str
    vanilla_direct: float
    vanilla_think: float
    challenging_direct: float
    challenging_think: float


ROWS = (
    PublishedRow("Qwen2.5-7B-Instruct (base)", 13.3, 0.02, 0.76),
    PublishedRow("PPO, direct", 61.7, 0.24, 0.23),
    PublishedRow("PPO, think", 79.2, 0.42, 0.09),
    PublishedRow("GRPO, direct", 68.3, 0.26, 0.10),
    PublishedRow("GRPO, think", 72.0, 0.34, 0.10),
)
OTHER_MODELS = (
    PublishedRow("Gemini2.5-Pro-0605", 82.4, 0.55, 0.04),
    PublishedRow("GPT-4o-0326", 79.9, 0.51, 0.04),
    PublishedRow("GPT-4.1-0414", 68.2, 0.35, 0.13),
    PublishedRow("Gemini2.5-Flash-Think-0520", 66.1, 0.39, 0.14),
    PublishedRow("o3-0416", 62.7, 0.32, 0.14),
)
CHIT_CHAT = (
    PublishedRow("Gemini2.5-Pro-0605", 83.3, 0.77, 0.11),
    PublishedRow("GPT-4o-0326", 80.9, 0.74, 0.17),
    PublishedRow("GPT-4.1-0414", 77.1, 0.65, 0.18),
    PublishedRow("Gemini2.5-Flash-Think-0520", 64.7, 0.53, 0.27),
    PublishedRow("o3-0416", 83.0, 0.66, 0.09),
    PublishedRow("Qwen2.5-7B-Instruct (base)", 37.8, 0.27, 0.58),
    PublishedRow("PPO, direct", 53.4, 0.39, 0.37),
    PublishedRow("PPO, think", 62.1, 0.52, 0.30),
    PublishedRow("GRPO, direct", 49.2, 0.34, 0.40),
    PublishedRow("GRPO, think", 53.0, 0.45, 0.42),
)
TABLE_1 = tuple(zip((*OTHER_MODELS, *ROWS), CHIT_CHAT, strict=True))
SAGE_SOURCE = "published: SAGE paper (arXiv 2505.02847 v3), Table 3"
SAGE_USER = "DeepSeek-V3 (2024-12-27)"
SAGE_PERSONAS = 100  # each once; the means are those of its recorded dialogues, which the paper rounds
SAGE_TABLE_3 = (
    PublishedRow("gpt-4.5", 62.70, 0.23, 0.15),
    PublishedRow("claude3.7", 54.80, 0.19, 0.24),
    PublishedRow("deepseek-v3-0324", 54.40, 0.19, 0.23),
    PublishedRow("deepseek-v3-1227", 37.55, 0.05, 0.39),
    PublishedRow("openai-o4mini", 35.85, 0.10, 0.48),
    PublishedRow("llama3.3-70b", 33.25, 0.07, 0.47),
    PublishedRow("gemini2.0-flash", 32.92, 0.08, 0.45),
    PublishedRow("gpt-4o-0808", 31.75, 0.07, 0.51),
    PublishedRow("qwen2.5-72b", 19.10, 0.04, 0.70),
)
TABLE_3 = (
    TrainedWith("Sentient-Benchmark", 61.7, 79.2, 19.8, 66.4),
    TrainedWith("Sentient-Benchmark, challenging user", 47.7, 59.6, 25.9, 44.7),
)
