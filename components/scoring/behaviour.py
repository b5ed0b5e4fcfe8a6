"""How a policy talks, in words and tokens: length, repetition, diversity, thoughts and what they cost. Needs no appraisal and no language.

What a portrait is made of: a number with its interval, or null with the reason why it cannot be known. Never a zero in its place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from statistics import correlation, fmean
from typing import Any

from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.scoring import intervals
from rlver.components.scoring.acts import words_of
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.components.scoring.units import Sampling, Units, Values

RUN_WORDS = 4  # a run of so many words that was said before is a repetition
WINDOW_WORDS = 25  # a short dialogue of short replies has as many
NO_TOKENS = "the transcript holds no token counts"
NO_THOUGHTS = "no reply was thought about"
NO_SECONDS = "transcripts hold no times; `rlver latency` measures them"
LEAST_TRACKED = 4  # turns, below which a correlation says nothing
SHARES = Interval(0.0, 1.0)
_COUNTS = Interval(0.0, math.inf)
_CORRELATIONS = Interval(-1.0, 1.0)


def behaviour(dialogues: Sequence[Dialogue], how: Sampling) -> dict[str, Any]:
    """Quantities by name. Lengths are means over replies; repetition and diversity means over dialogues; shares in 0..1."""
    said = {dialogue.dialogue_id: [words_of(turn.assistant) for turn in dialogue.turns] for dialogue in dialogues}

    def of_replies(count: Callable[[Turn], int | None], reason: str) -> dict[str, Any]:
        values = by_persona(dialogues, lambda d: [float(value) for turn in d.turns if (value := count(turn)) is not None])
        return mean(values, _COUNTS, how, reason)

    def of_dialogues(measure: Callable[[Dialogue], float | None], whole_range: Interval, reason: str) -> dict[str, Any]:
        values = by_persona(dialogues, lambda d: [value] if (value := measure(d)) is not None else [])
        return mean(values, whole_range, how, reason)

    too_short = f"no dialogue has {LEAST_TRACKED + 1} turns with messages of different length"
    thought = by_persona(dialogues, lambda d: [float(thought_about(turn)) for turn in d.turns])
    return {
        "reply_words": of_replies(lambda turn: len(words_of(turn.assistant)), "there is no reply"),
        "reply_tokens": of_replies(lambda turn: turn.reply_tokens, NO_TOKENS),
        "length_tracking": of_dialogues(lambda d: length_tracking(d.turns), _CORRELATIONS, too_short),
        "repeated_runs": of_dialogues(lambda d: repeated_runs(said[d.dialogue_id]), SHARES, "no dialogue has a second reply"),
        "stock_replies": share(_stock_replies(dialogues, said), "there is no reply", how.units),
        "different_words": of_dialogues(lambda d: different_words(said[d.dialogue_id]), SHARES, f"no dialogue has {WINDOW_WORDS} words"),
        "replies_with_thought": share(thought, "there is no reply", how.units),
        "thought_words": of_replies(lambda turn: len(words_of(turn.think or "")) if thought_about(turn) else None, NO_THOUGHTS),
        "thought_tokens": of_replies(lambda turn: turn.think_tokens or None, NO_THOUGHTS),
        "thought_share_of_tokens": of_dialogues(_thought_share, SHARES, NO_TOKENS),
        "thought_seconds": unknown(NO_SECONDS),
    }


def thought_about(turn: Turn) -> bool:
    """Whether a thought and a reply are both there. Of a malformed reply all its text is kept as a thought, and nothing was said."""
    return bool(turn.think and turn.assistant.strip())


def length_tracking(turns: Sequence[Turn]) -> float | None:
    """Do replies grow and shrink with what they answer? Correlation of the log words of message and reply; 0 for replies of one length.

    From the second turn on: openers and first replies are short with everybody. None with fewer than 4 such turns, or where the
    messages are all of one length.
    """
    if len(turns) <= LEAST_TRACKED:
        return None
    asked, said = (
        [math.log1p(len(words_of(text))) for text in texts] for texts in zip(*((t.user, t.assistant) for t in turns[1:]), strict=True)
    )
    if len(set(asked)) == 1:
        return None
    return 0.0 if len(set(said)) == 1 else correlation(asked, said)


def repeated_runs(replies: Sequence[Sequence[str]]) -> float | None:
    """Share of the runs of four words, from the second reply on, that an earlier reply of the dialogue holds; None without any."""
    before: set[tuple[str, ...]] = set()
    again = total = 0
    for number, words in enumerate(replies):
        runs = list(_runs(words, RUN_WORDS))
        if number:
            total += len(runs)
            again += sum(map(before.__contains__, runs))
        before.update(runs)
    return again / total if total else None


def different_words(replies: Sequence[Sequence[str]]) -> float | None:
    """Moving-average type-token ratio (MATTR, Covington and McFall 2010): different words among 25 successive ones, averaged over a dialogue.

    Unlike distinct-n it does not fall with the length of a dialogue. None for fewer than 25 words.
    """
    words = list(chain.from_iterable(replies))
    windows = [len(set(words[start : start + WINDOW_WORDS])) for start in range(len(words) - WINDOW_WORDS + 1)]
    return fmean(windows) / WINDOW_WORDS if windows else None


def _runs(words: Sequence[str], length: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(length)), strict=False)


def _stock_replies(dialogues: Sequence[Dialogue], said: Mapping[str, Sequence[tuple[str, ...]]]) -> dict[str, list[float]]:
    """For each reply: was another persona told the same, word for word?"""
    heard_by: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for dialogue in dialogues:
        for words in said[dialogue.dialogue_id]:
            heard_by[words].add(dialogue.persona_id)
    return by_persona(dialogues, lambda d: [float(len(heard_by[words]) > 1) for words in said[d.dialogue_id]])


def _thought_share(dialogue: Dialogue) -> float | None:
    """Thought tokens among all that were generated, so what thinking adds to the waiting time at a constant speed."""
    counted = [(turn.think_tokens or 0, turn.reply_tokens) for turn in dialogue.turns if turn.reply_tokens is not None]
    total = sum(chain.from_iterable(counted))
    return sum(think for think, _ in counted) / total if total else None


def known(estimated: Estimated) -> dict[str, Any]:
    """JSON-ready: value, ci95 and n, the units behind them."""
    return {"value": round(estimated.value, 6), "ci95": intervals.to_json(estimated.ci95), "n": estimated.n}


def unknown(reason: str) -> dict[str, Any]:
    return {"value": None, "ci95": None, "n": 0, "reason": reason}


def mean(values: Values, whole_range: Interval, how: Sampling, reason: str) -> dict[str, Any]:
    """With fewer than two units there is no interval, so there is no number; `reason` is why there may be no values at all."""
    too_few = _too_few(values, reason, how.units)
    return unknown(too_few) if too_few else known(how.mean(values, whole_range))


def share(values: Values, reason: str, units: Units) -> dict[str, Any]:
    """The same of 0/1 values."""
    too_few = _too_few(values, reason, units)
    return unknown(too_few) if too_few else known(units.share(values))


def _too_few(values: Values, reason: str, units: Units) -> str | None:
    having = units.count(persona for persona, members in values.items() if members)
    if having == 0:
        return reason
    return f"one {units.name(values)} says nothing about the spread" if having == 1 else None


def by_persona(dialogues: Iterable[Dialogue], values_of: Callable[[Dialogue], Iterable[float]]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for dialogue in dialogues:
        values.setdefault(dialogue.persona_id, []).extend(values_of(dialogue))
    return values
