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

from components.dialogue.transcript import Dialogue, SimulatorTag
from components.evaluation import statistics
from components.evaluation.statistics import Estimated, Interval

SUCCESS = 100  # final emotion at or above: success (SAGE paper, section 3)
FAILURE = 10  # final emotion below: failure
EMOTIONS = Interval(0.0, 100.0)
_DIFFERENCES = Interval(-100.0, 100.0)
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
        "failed_dialogues": failed,
        "unscorable_share": _rounded(failed / len(dialogues)),
        **_summary(scorable, bootstrap_samples, seed),
        "reply_tokens_mean": _mean(turn.reply_tokens for d in scorable for turn in d.turns),
        "think_tokens_mean": _mean(turn.think_tokens for d in scorable for turn in d.turns),
        "stop_reasons": dict(sorted(Counter(str(d.stop_reason) for d in dialogues).items())),
        "right_act_rate_by_need": {need: group["right_act_rate"] for need, group in by_need.items()},
        "by_need": by_need,
        "by_class": _grouped(scorable, lambda d: known_classes.get(d.persona_id, UNKNOWN), bootstrap_samples, seed),
        "paired_to_base": None if base_dialogues is None else _paired(scorable, _scorable(base_dialogues), bootstrap_samples, seed),
        "settings_digest": settings_digest,
    }


def by_persona(dialogues: Iterable[Dialogue], quantity: Callable[[Dialogue, int], float]) -> dict[str, list[float]]:
    """`quantity(dialogue, final emotion)` of the scorable dialogues, grouped by persona."""
    values: dict[str, list[float]] = {}
    for dialogue in dialogues:
        if dialogue.emotion_final is not None:
            values.setdefault(dialogue.persona_id, []).append(quantity(dialogue, dialogue.emotion_final))
    return values


def final_emotion(_: Dialogue, emotion: int) -> float:
    return float(emotion)


def is_success(_: Dialogue, emotion: int) -> float:
    return float(emotion >= SUCCESS)


def is_failure(_: Dialogue, emotion: int) -> float:
    return float(emotion < FAILURE)


def right_act_rate(dialogues: Iterable[Dialogue]) -> float | None:
    """Share of the appraised turns from the first cue on whose appraisal says that the reply served the need; None without a cue."""
    hits: list[bool] = []
    for dialogue in dialogues:
        cued = False
        for turn in dialogue.turns:
            cued = cued or turn.cue is True
            if cued and turn.appraisal is not None:
                hits.append(any(evidence.what == SERVES_NEED for evidence in turn.appraisal.evidence))
    return _rounded(sum(hits) / len(hits)) if hits else None


def _summary(scorable: Sequence[Dialogue], samples: int, seed: int) -> dict[str, Any]:
    emotion = statistics.cluster_bootstrap(by_persona(scorable, final_emotion), samples, seed, EMOTIONS)
    success = statistics.proportion(by_persona(scorable, is_success))
    failure = statistics.proportion(by_persona(scorable, is_failure))
    return {
        "emotion_mean": _rounded(emotion.value),
        "emotion_ci95": _ends(emotion),
        "success_rate": _rounded(success.value),
        "success_ci95": _ends(success),
        "failure_rate": _rounded(failure.value),
        "failure_ci95": _ends(failure),
        "turns_mean": _mean(len(d.turns) for d in scorable),
        "right_act_rate": right_act_rate(scorable),
    }


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
    return {
        "difference": _rounded(estimated.value),
        "ci95": _ends(estimated),
        "personas": estimated.n,
        "unpaired_personas": len(ours.keys() ^ theirs.keys()),
    }


def _scorable(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    scorable = [d for d in dialogues if d.emotion_final is not None]
    if not scorable:
        reasons = Counter(d.failure for d in dialogues).most_common(1)
        raise ValueError(f"none of {len(dialogues)} dialogues can be scored; most frequent failure: {reasons[0][0] if reasons else 'none'}")
    return scorable


def _only_simulator(dialogues: Iterable[Dialogue]) -> SimulatorTag:
    tags = {(d.simulator.kind, d.simulator.difficulty, d.simulator.version): d.simulator for d in dialogues}
    if len(tags) > 1:
        names = ", ".join(sorted("/".join(tag) for tag in tags))
        raise ValueError(f"scores of different simulators are not comparable, got {names}")
    return next(iter(tags.values()))


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(math.fsum(known) / len(known)) if known else None


def _ends(estimated: Estimated) -> list[float]:
    return [_rounded(estimated.ci95.low), _rounded(estimated.ci95.high)]


def _rounded(value: float) -> float:
    """Six decimals: more than anyone reads, fewer than a change of summation order could touch."""
    return round(value, 6)
