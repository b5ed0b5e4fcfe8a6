"""Two policies on the same personas, and many in a row: no difference and no row comes without an interval; the type sees to it.

The differences of two are one family of tests: a single p below .05 among several means little, so p-values are Holm-adjusted. Intervals
are not. Of a leaderboard every row is measured here; published rows stand apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring import sentient, statistics, turns
from rlver.components.scoring.behaviour import by_persona as by_turn
from rlver.components.scoring.splits import only_set, refuse_mixed_users, user_of
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.components.scoring.units import Sampling


@dataclass(frozen=True)
class PairedRow:
    """One quantity: the means of both sides (over the turns, for what turns have) of the personas they share, and b minus a with its 95% interval.

    `p_holm` is of H0 "no difference", two-sided; `detectable` the difference that these personas show with 80% power; both are None for
    a single persona.
    """

    quantity: str
    a: float
    b: float
    difference: Estimated
    p_holm: float | None
    detectable: float | None


@dataclass(frozen=True)
class Comparison:
    """`personas` are paired; those only one side was scored on are in no row. Intervals are over `units` of the kind `unit`."""

    personas: int
    unit: str
    units: int
    splits: dict[str, int]  # of the paired personas
    only_a: int
    only_b: int
    unscorable_a: int
    unscorable_b: int
    rows: tuple[PairedRow, ...]


def compare(a: Sequence[Dialogue], b: Sequence[Dialogue], how: Sampling) -> Comparison:
    """Pair two transcripts by persona (repeats averaged).

    Raises ValueError when the simulators differ, when personas of several sets are mixed, or when no persona was scored on both sides.
    """
    refuse_mixed_users([*a, *b])
    personas_a, personas_b = ({d.persona_id for d in side if d.emotion_final is not None} for side in (a, b))
    shared = personas_a & personas_b
    if not shared:
        raise ValueError("the two transcripts have no persona in common that both were scored on; converse with the same personas")
    sides = [[d for d in side if d.persona_id in shared and d.emotion_final is not None] for side in (a, b)]
    measured = {quantity: found for quantity, of in _QUANTITIES.items() if (found := of(*sides)).differences}
    tests = {
        quantity: (how.units.paired_shares if quantity in _RATES else how.units.paired_scores)(one.differences)
        for quantity, one in measured.items()
        if how.units.count(one.differences) > 1
    }
    adjusted = statistics.holm({quantity: statistics.p_differs(test) for quantity, test in tests.items()})
    rows = [
        PairedRow(
            quantity=quantity,
            a=one.a,
            b=one.b,
            difference=_difference(quantity, one.differences, how),
            p_holm=adjusted.get(quantity),
            detectable=statistics.detectable(tests[quantity]) if quantity in tests else None,
        )
        for quantity, one in measured.items()
    ]
    return Comparison(
        personas=len(shared),
        unit=how.units.name(shared),
        units=how.units.count(shared),
        splits=only_set(sides[0]),
        only_a=len(personas_a - shared),
        only_b=len(personas_b - shared),
        unscorable_a=sum(d.emotion_final is None for d in a),
        unscorable_b=sum(d.emotion_final is None for d in b),
        rows=tuple(rows),
    )


def _difference(quantity: str, differences: dict[str, float], how: Sampling) -> Estimated:
    if quantity in _RATES:
        mean = math.fsum(differences.values()) / len(differences)
        return Estimated(mean, how.units.paired_share_interval(differences), how.units.count(differences))
    return how.paired_mean(differences, _RANGES.get(quantity, Interval(-math.inf, math.inf)))


class _Measured(NamedTuple):
    a: float
    b: float
    differences: dict[str, float]  # by persona; empty where a side has none


def _of_dialogues(of: Callable[[Dialogue, int], float], a: Sequence[Dialogue], b: Sequence[Dialogue]) -> _Measured:
    """Of a number for each dialogue: repeats of a persona are averaged, then personas."""
    values_a, values_b = (sentient.by_persona(side, of) for side in (a, b))
    differences = statistics.paired_differences(values_b, values_a)
    mean_a, mean_b = (
        math.fsum(math.fsum(values[persona]) / len(values[persona]) for persona in differences) / len(differences)
        for values in (values_a, values_b)
    )
    return _Measured(mean_a, mean_b, differences)


def _of_turns(of: Callable[[Dialogue], list[float]], a: Sequence[Dialogue], b: Sequence[Dialogue]) -> _Measured:
    """Of a number for each turn: all turns of all dialogues weigh the same, as in sentient.json."""
    values_a, values_b = (by_turn(side, of) for side in (a, b))
    differences = turns.pooled_differences(values_b, values_a)
    mean_a, mean_b = (turns.pooled_mean(values) if differences else math.nan for values in (values_a, values_b))
    return _Measured(mean_a, mean_b, differences)


def _right_act_by_turn(a: Sequence[Dialogue], b: Sequence[Dialogue]) -> _Measured:
    """The rate at every turn number that both sides reached, and the mean of these rates, as in sentient.json."""
    sides = [turns.right_acts_of(side) for side in (a, b)]
    differences = turns.by_turn_differences(sides[1], sides[0])
    if not differences:
        return _Measured(math.nan, math.nan, {})
    numbers = turns.judged_turns(*sides)
    mean_a, mean_b = (math.fsum(turns.by_turn(side, numbers, sorted(side)).values()) / len(side) for side in sides)
    return _Measured(mean_a, mean_b, differences)


def _turns(dialogue: Dialogue, _: int) -> float:
    return float(len(dialogue.turns))


def _reply_tokens(dialogue: Dialogue) -> list[float]:
    return [float(turn.reply_tokens) for turn in dialogue.turns if turn.reply_tokens is not None]


_QUANTITIES: dict[str, Callable[[Sequence[Dialogue], Sequence[Dialogue]], _Measured]] = {
    "emotion_mean": partial(_of_dialogues, sentient.final_emotion),
    "success_rate": partial(_of_dialogues, sentient.is_success),
    "failure_rate": partial(_of_dialogues, sentient.is_failure),
    "right_act_by_turn": _right_act_by_turn,
    "turns_mean": partial(_of_dialogues, _turns),
    "reply_tokens_mean": partial(_of_turns, _reply_tokens),
}
_RATES = frozenset({"success_rate", "failure_rate"})
_RANGES = {"emotion_mean": Interval(-100.0, 100.0), "right_act_by_turn": Interval(-1.0, 1.0)}


@dataclass(frozen=True)
class Standing:
    """One policy as measured here: no row without intervals, the type sees to it. Emotion in 0..100, rates in 0..1."""

    policy: str
    user: str
    source: str
    dialogues: int  # scorable ones
    unscorable: int
    splits: dict[str, int]  # personas by split
    personas: frozenset[str]  # also of failed dialogues: they were to be held
    unit: str  # of the intervals
    emotion: Estimated
    success: Estimated
    failure: Estimated


def standing(dialogues: Sequence[Dialogue], source: str, how: Sampling) -> Standing:
    """The row of one transcript. Raises ValueError when it holds several policies, users or sets, or no scorable dialogue."""
    policies = sorted({dialogue.policy for dialogue in dialogues})
    users = sorted({user_of(dialogue) for dialogue in dialogues})
    for what, found in (("policies", policies), ("users", users)):
        if len(found) > 1:
            raise ValueError(f"{source}: a row is one policy with one kind of user, got the {what} {', '.join(found)}; score them apart")
    scorable = [dialogue for dialogue in dialogues if dialogue.emotion_final is not None]
    if not scorable:
        raise ValueError(f"{source}: none of {len(dialogues)} dialogues can be scored; their `error` says why")
    return Standing(
        policy=policies[0],
        user=users[0],
        source=source,
        dialogues=len(scorable),
        unscorable=len(dialogues) - len(scorable),
        splits=only_set(dialogues),
        personas=frozenset(dialogue.persona_id for dialogue in dialogues),
        unit=how.units.name({dialogue.persona_id for dialogue in scorable}),
        emotion=how.mean(sentient.by_persona(scorable, sentient.final_emotion), sentient.EMOTIONS),
        success=how.units.share(sentient.by_persona(scorable, sentient.is_success)),
        failure=how.units.share(sentient.by_persona(scorable, sentient.is_failure)),
    )
