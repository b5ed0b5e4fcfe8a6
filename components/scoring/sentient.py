"""Sentient-Benchmark: how users feel at the end, from transcripts alone.

A failed dialogue is unscorable: it is counted in `failed_dialogues` and `unscorable_share` and enters no mean, so it can neither help
nor hurt a policy as a zero would. Wall-clock time is left out on purpose: the file is the same for the same transcripts, byte by byte;
the time a stage took is in MLflow and in the flow's artifacts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlver.components.domain.transcript import Dialogue, SimulatorTag, Turn
from rlver.components.scoring import intervals, statistics
from rlver.components.scoring.course import course
from rlver.components.scoring.statistics import Interval, by_cluster

SUCCESS = 100  # final emotion at or above: success (SAGE paper, section 3)
FAILURE = 10  # final emotion below: failure
EMOTIONS = Interval(0.0, 100.0)
_DIFFERENCES = Interval(-100.0, 100.0)
_SPLIT = re.compile(r"-(train|test|sealed)-\d{4}-")
SERVES_NEED = "serves_need"
UNKNOWN = "unknown"


def sentient_metrics(
    dialogues: Sequence[Dialogue],
    base_dialogues: Sequence[Dialogue] | None,
    bootstrap_samples: int,
    seed: int,
    *,
    classes: Mapping[str, str] | None = None,
    settings_digest: str = "",
) -> dict[str, Any]:
    """The metrics of one policy; `paired_to_base` is None without `base_dialogues`.

    Emotions are in 0..100, rates in 0..1, intervals are 95%. `classes` maps persona ids to persona classes. Raises ValueError when no
    dialogue can be scored, when several simulators are mixed, or when base and policy met different ones or share no persona.
    """
    scorable = _scorable(dialogues)
    _only_simulator([*dialogues, *(base_dialogues or [])])
    known_classes = classes or {}
    failed = len(dialogues) - len(scorable)
    by_need = _grouped(scorable, lambda d: d.hidden_need or UNKNOWN, bootstrap_samples, seed)
    return {
        "n": len(dialogues),
        "persona_splits": _splits(dialogues),
        "failed_dialogues": failed,
        "unscorable_share": _rounded(failed / len(dialogues)),
        **_summary(scorable, bootstrap_samples, seed),
        "detectable": _detectable(scorable),
        **_tokens("reply_tokens", scorable, lambda turn: turn.reply_tokens, bootstrap_samples, seed),
        **_tokens("think_tokens", scorable, lambda turn: turn.think_tokens, bootstrap_samples, seed),
        "stop_reasons": dict(sorted(Counter(str(d.stop_reason) for d in dialogues).items())),
        "right_act_rate_by_need": {need: group["right_act_rate"] for need, group in by_need.items()},
        "course": course(scorable, bootstrap_samples, seed),
        "by_need": by_need,
        "by_class": _grouped(scorable, lambda d: known_classes.get(d.persona_id, UNKNOWN), bootstrap_samples, seed),
        "paired_to_base": None if base_dialogues is None else _paired(scorable, _scorable(base_dialogues), bootstrap_samples, seed),
        "settings_digest": settings_digest,
    }


def _splits(dialogues: Sequence[Dialogue]) -> dict[str, int]:
    """Personas by the split that their id names; `imported` are those whose id names none."""
    ids = {one.persona_id for one in dialogues}
    return dict(sorted(Counter(found[1] if (found := _SPLIT.search(one)) else "imported" for one in ids).items()))


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
    """Share of the appraised turns from the first cue on whose appraisal says that the reply served the need.

    None without a cue, or where no appraisal names acts."""
    hits = [hit for dialogue in dialogues for hit in right_acts(dialogue)]
    return _rounded(sum(hits) / len(hits)) if hits else None


def right_acts(dialogue: Dialogue) -> list[float]:
    """1 or 0 for every appraised turn from the first cue on."""
    hits, cued = list[float](), False
    for turn in dialogue.turns if dialogue.simulator.names_acts else ():
        cued = cued or turn.cue is True
        if cued and turn.appraisal is not None:
            hits.append(float(any(evidence.what == SERVES_NEED for evidence in turn.appraisal.evidence)))
    return hits


def _summary(scorable: Sequence[Dialogue], samples: int, seed: int) -> dict[str, Any]:
    emotion = statistics.cluster_bootstrap(by_persona(scorable, final_emotion), samples, seed, EMOTIONS)
    success = statistics.proportion(by_persona(scorable, is_success))
    failure = statistics.proportion(by_persona(scorable, is_failure))
    hits = by_turn(scorable, right_acts)
    return {
        "emotion_mean": _rounded(emotion.value),
        "emotion_ci95": intervals.to_json(emotion.ci95),
        "success_rate": _rounded(success.value),
        "success_ci95": intervals.to_json(success.ci95),
        "failure_rate": _rounded(failure.value),
        "failure_ci95": intervals.to_json(failure.ci95),
        "turns_mean": _mean(len(d.turns) for d in scorable),
        "turns_ci95": _interval_of(by_turn(scorable, lambda d: [len(d.turns)]), samples, seed),
        "right_act_rate": _mean(hit for of_persona in hits.values() for hit in of_persona),
        "right_act_ci95": intervals.to_json(statistics.proportion(hits).ci95) if any(hits.values()) else None,
    }


def _detectable(scorable: Sequence[Dialogue]) -> float | None:
    """The difference to another policy on the same personas that would be found with 80% power, if the two had nothing in common."""
    means = [math.fsum(values) / len(values) for values in by_persona(scorable, final_emotion).values()]
    if len(means) < 2:
        return None
    return _rounded(math.sqrt(2) * statistics.detectable(statistics.paired_scores(means)))


def _tokens(name: str, scorable: Sequence[Dialogue], count: Callable[[Turn], int | None], samples: int, seed: int) -> dict[str, Any]:
    values = by_turn(scorable, lambda d: [float(tokens) for turn in d.turns if (tokens := count(turn)) is not None])
    return {f"{name}_mean": _mean(count(turn) for d in scorable for turn in d.turns), f"{name}_ci95": _interval_of(values, samples, seed)}


def by_turn(dialogues: Iterable[Dialogue], values_of: Callable[[Dialogue], Sequence[float]]) -> dict[str, list[float]]:
    """The values of all turns, grouped by persona."""
    values: dict[str, list[float]] = {}
    for dialogue in dialogues:
        values.setdefault(dialogue.persona_id, []).extend(values_of(dialogue))
    return values


def _interval_of(values: Mapping[str, Sequence[float]], samples: int, seed: int) -> dict[str, float] | None:
    """Of a mean of counts; None where fewer than two personas have any."""
    if sum(1 for members in values.values() if members) < 2:
        return None
    return intervals.to_json(statistics.cluster_bootstrap(values, samples, seed, Interval(0.0, math.inf)).ci95)


def _grouped(scorable: Sequence[Dialogue], key: Callable[[Dialogue], str], samples: int, seed: int) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Dialogue]] = {}
    for dialogue in scorable:
        groups.setdefault(key(dialogue), []).append(dialogue)
    return {name: {"n": len(groups[name]), **_summary(groups[name], samples, seed)} for name in sorted(groups)}


def _paired(scorable: Sequence[Dialogue], base: Sequence[Dialogue], samples: int, seed: int) -> dict[str, Any]:
    ours, theirs = by_persona(scorable, final_emotion), by_persona(base, final_emotion)
    differences = statistics.paired_differences(ours, theirs)
    if not differences:
        raise ValueError("the policy and the base have no persona in common that both were scored on; converse with the same personas")
    estimated = statistics.paired_mean(differences, samples, seed, _DIFFERENCES)
    test = statistics.paired_scores(list(differences.values())) if len(differences) > 1 else None
    return {
        "difference": _rounded(estimated.value),
        "ci95": intervals.to_json(estimated.ci95),
        "p": _rounded(statistics.p_differs(test)) if test else None,
        "detectable": _rounded(statistics.detectable(test)) if test else None,
        "personas": estimated.n,
        "unpaired_personas": len(ours.keys() ^ theirs.keys()),
        "by_need": _paired_by_need(scorable, differences, samples, seed),
    }


def _paired_by_need(scorable: Sequence[Dialogue], differences: Mapping[str, float], samples: int, seed: int) -> dict[str, dict[str, Any]]:
    """The paired difference of the personas with each hidden need; the needs are one family of tests, so p is Holm-adjusted over them."""
    need_of = {dialogue.persona_id: dialogue.hidden_need or UNKNOWN for dialogue in scorable}
    groups: dict[str, dict[str, float]] = {}
    for persona, difference in differences.items():
        groups.setdefault(need_of[persona], {})[persona] = difference
    tests = {need: statistics.paired_scores(list(group.values())) for need, group in groups.items() if len(group) > 1}
    adjusted = statistics.holm({need: statistics.p_differs(test) for need, test in tests.items()})
    rows = {}
    for need, group in sorted(groups.items()):
        estimated = statistics.paired_mean(group, samples, seed, _DIFFERENCES)
        p = _rounded(adjusted[need]) if need in adjusted else None
        rows[need] = {
            "difference": _rounded(estimated.value),
            "ci95": intervals.to_json(estimated.ci95),
            "p_holm": p,
            "personas": estimated.n,
        }
    return rows


def _scorable(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    scorable = [d for d in dialogues if d.emotion_final is not None]
    if not scorable:
        reasons = Counter(d.error for d in dialogues).most_common(1)
        raise ValueError(f"none of {len(dialogues)} dialogues can be scored; most frequent failure: {reasons[0][0] if reasons else 'none'}")
    return scorable


def _only_simulator(dialogues: Iterable[Dialogue]) -> SimulatorTag:
    tags = {(d.simulator.kind, d.simulator.difficulty, d.simulator.version): d.simulator for d in dialogues}
    if len(tags) > 1:
        names = ", ".join(sorted("/".join(tag) for tag in tags))
        raise ValueError(f"scores of different simulators are not comparable, got {names}")
    return next(iter(tags.values()))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(math.fsum(known) / len(known)) if known else None


def _rounded(value: float) -> float:
    """Six decimals: more than anyone reads, fewer than a change of summation order could touch."""
    return round(value, 6)
