"""Numbers and names as a reader sees them. None becomes a dash: not measured is not zero."""

from __future__ import annotations

from components.dialogue.transcript import Dialogue, StopReason
from components.evaluation.sentient import FAILURE, SUCCESS

DASH = "–"
MINUS = "\u2212"
OUTCOMES = ("success", "in between", "failure", "unscorable")
_ENDINGS = {
    StopReason.EMOTION_CEILING: "the user left content",
    StopReason.EMOTION_FLOOR: "the user gave up",
    StopReason.TURN_LIMIT: "the turn limit was reached",
    StopReason.GOODBYE: "the user said goodbye",
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
