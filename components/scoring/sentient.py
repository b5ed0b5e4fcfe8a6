"""Sentient-Benchmark: how users feel at the end, from transcripts alone.

A failed dialogue is unscorable: it is counted in `failed_dialogues` and `unscorable_share` and enters no mean, so it can neither help
nor hurt a policy as a zero would. Wall-clock time is left out on purpose: the file is the same for the same transcripts, byte by byte;
the time a stage took is in MLflow and in the flow's artifacts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlver.components.domain.acts import right_acts
from rlver.components.domain.emotion import FAILURE, SUCCESS
from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring import intervals, statistics, turns
from rlver.components.scoring.behaviour import by_persona as by_turn
from rlver.components.scoring.course import course
from rlver.components.scoring.splits import only_set, refuse_mixed_policies, refuse_mixed_users
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster
from rlver.components.scoring.units import Sampling

EMOTIONS = Interval(0.0, 100.0)
_DIFFERENCES = Interval(-100.0, 100.0)
UNKNOWN = "unknown"


def sentient_metrics(
    dialogues: Sequence[Dialogue],
    base_dialogues: Sequence[Dialogue] | None,
    how: Sampling,
    *,
    classes: Mapping[str, str] | None = None,
    settings_digest: str = "",
) -> dict[str, Any]:
    """The metrics of one policy; `paired_to_base` is None without `base_dialogues`.

    Emotions are in 0..100, rates in 0..1, intervals are 95%, over `interval_unit`, the units of `how`. `classes` are persona classes by persona id. Raises ValueError when no dialogue can be scored, when several policies, simulators or sets
    of personas are mixed, or when base and policy met different ones or share no persona.
    """
    scorable = _scorable(dialogues)
    refuse_mixed_users([*dialogues, *(base_dialogues or [])])
    for side in (dialogues, base_dialogues or ()):
        refuse_mixed_policies(side)
    known_classes = classes or {}
    failed = len(dialogues) - len(scorable)
    by_need = _grouped(scorable, lambda d: d.hidden_need or UNKNOWN, how)
    personas = {dialogue.persona_id for dialogue in scorable}
    return {
        "n": len(dialogues),
        "persona_splits": only_set(dialogues),
        "interval_unit": how.units.name(personas),
        "interval_units": how.units.count(personas),
        "failed_dialogues": failed,
        "unscorable_share": _rounded(failed / len(dialogues)),
        **_summary(scorable, how),
        "detectable": _detectable(scorable, how),
        **_counts("reply_tokens", scorable, lambda d: [turn.reply_tokens for turn in d.turns], how),
        **_counts("think_tokens", scorable, lambda d: [turn.think_tokens for turn in d.turns], how),
        "stop_reasons": dict(sorted(Counter(str(d.stop_reason) for d in dialogues).items())),
        "right_act_rate_by_need": {need: group["right_act_rate"] for need, group in by_need.items()},
        "course": course(scorable, how),
        "by_need": by_need,
        "by_class": _grouped(scorable, lambda d: known_classes.get(d.persona_id, UNKNOWN), how),
        "paired_to_base": None if base_dialogues is None else _paired(scorable, _scorable(base_dialogues), how),
        "settings_digest": settings_digest,
    }


def by_persona(dialogues: Iterable[Dialogue], quantity: Callable[[Dialogue, int], float]) -> dict[str, list[float]]:
    """`quantity(dialogue, final emotion)` of the scorable dialogues, grouped by persona."""
    return by_cluster((one.persona_id, quantity(one, one.emotion_final)) for one in dialogues if one.emotion_final is not None)


def final_emotion(_: Dialogue, emotion: int) -> float:
    return float(emotion)


def is_success(_: Dialogue, emotion: int) -> float:
    return float(emotion >= SUCCESS)


def is_failure(_: Dialogue, emotion: int) -> float:
    return float(emotion < FAILURE)


def right_act_rate(dialogues: Iterable[Dialogue]) -> float | None:
    """Share of the appraised turns from the first cue on whose appraisal says that the reply served the need: all turns weigh the same.

    None without a cue, or where no appraisal names acts."""
    hits = [hit for dialogue in dialogues for _, hit in right_acts(dialogue)]
    return _rounded(math.fsum(hits) / len(hits)) if hits else None


def _summary(scorable: Sequence[Dialogue], how: Sampling) -> dict[str, Any]:
    units = how.units
    acts = turns.right_acts_of(scorable)
    pooled = units.share({persona: [hit for _, hit in hits] for persona, hits in acts.items()}) if acts else None
    standardised = (
        units.linearised_share(turns.by_turn(acts, turns.judged_turns(acts), sorted(acts)), sum(map(len, acts.values()))) if acts else None
    )
    return {
        **_with_interval("emotion_mean", "emotion_ci95", how.mean(by_persona(scorable, final_emotion), EMOTIONS)),
        **_with_interval("success_rate", "success_ci95", units.share(by_persona(scorable, is_success))),
        **_with_interval("failure_rate", "failure_ci95", units.share(by_persona(scorable, is_failure))),
        **_counts("turns", scorable, lambda d: [len(d.turns)], how),
        **_with_interval("right_act_rate", "right_act_ci95", pooled),
        **_with_interval("right_act_by_turn", "right_act_by_turn_ci95", standardised),
    }


def _with_interval(name: str, interval_name: str, estimated: Estimated | None) -> dict[str, Any]:
    if estimated is None:
        return {name: None, interval_name: None}
    return {name: _rounded(estimated.value), interval_name: intervals.to_json(estimated.ci95)}


def _detectable(scorable: Sequence[Dialogue], how: Sampling) -> float | None:
    """The difference to another policy on the same personas that would be found with 80% power, if the other one spreads the same and
    the two have nothing in common."""
    means = {persona: math.fsum(values) / len(values) for persona, values in by_persona(scorable, final_emotion).items()}
    if how.units.count(means) < 2:
        return None
    alone = statistics.detectable(how.units.paired_scores(means))
    return None if alone is None else _rounded(math.sqrt(2) * alone)


def _counts(name: str, scorable: Sequence[Dialogue], of: Callable[[Dialogue], Iterable[int | None]], how: Sampling) -> dict[str, Any]:
    """The mean of counts, None where there are none, and its interval, None where fewer than two units have any."""
    values = by_turn(scorable, lambda dialogue: [float(count) for count in of(dialogue) if count is not None])
    units = how.units.count(persona for persona, members in values.items() if members)
    interval = how.mean(values, Interval(0.0, math.inf)).ci95 if units > 1 else None
    return {
        f"{name}_mean": _rounded(turns.pooled_mean(values)) if units else None,
        f"{name}_ci95": intervals.to_json(interval) if interval else None,
    }


def _grouped(scorable: Sequence[Dialogue], key: Callable[[Dialogue], str], how: Sampling) -> dict[str, dict[str, Any]]:
    groups = by_cluster((key(dialogue), dialogue) for dialogue in scorable)
    return {name: {"n": len(groups[name]), **_summary(groups[name], how)} for name in sorted(groups)}


def _paired(scorable: Sequence[Dialogue], base: Sequence[Dialogue], how: Sampling) -> dict[str, Any]:
    ours, theirs = by_persona(scorable, final_emotion), by_persona(base, final_emotion)
    differences = statistics.paired_differences(ours, theirs)
    if not differences:
        raise ValueError("the policy and the base have no persona in common that both were scored on; converse with the same personas")
    estimated = how.paired_mean(differences, _DIFFERENCES)
    test = how.units.paired_scores(differences) if how.units.count(differences) > 1 else None
    return {
        **_with_interval("difference", "ci95", estimated),
        "p": _rounded(statistics.p_differs(test)) if test else None,
        "detectable": _rounded(smallest) if test and (smallest := statistics.detectable(test)) is not None else None,
        "personas": len(differences),
        "unpaired_personas": len(ours.keys() ^ theirs.keys()),
        "by_need": _paired_by_need(scorable, differences, how),
    }


def _paired_by_need(scorable: Sequence[Dialogue], differences: Mapping[str, float], how: Sampling) -> dict[str, dict[str, Any]]:
    """The paired difference of the personas with each hidden need; the needs are one family of tests, so p is Holm-adjusted over them."""
    need_of = {dialogue.persona_id: dialogue.hidden_need or UNKNOWN for dialogue in scorable}
    groups = {need: dict(pairs) for need, pairs in by_cluster((need_of[pair[0]], pair) for pair in differences.items()).items()}
    tests = {need: how.units.paired_scores(group) for need, group in groups.items() if how.units.count(group) > 1}
    adjusted = statistics.holm({need: statistics.p_differs(test) for need, test in tests.items()})
    rows = {}
    for need, group in sorted(groups.items()):
        rows[need] = {
            **_with_interval("difference", "ci95", how.paired_mean(group, _DIFFERENCES)),
            "p_holm": _rounded(adjusted[need]) if need in adjusted else None,
            "personas": len(group),
        }
    return rows


def _scorable(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    scorable = [d for d in dialogues if d.emotion_final is not None]
    if not scorable:
        reasons = Counter(d.error for d in dialogues).most_common(1)
        raise ValueError(f"none of {len(dialogues)} dialogues can be scored; most frequent failure: {reasons[0][0] if reasons else 'none'}")
    return scorable


def _rounded(value: float) -> float:
    """Six decimals: more than anyone reads, fewer than a change of summation order could touch."""
    return round(value, 6)
