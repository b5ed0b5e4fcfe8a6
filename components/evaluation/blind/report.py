"""What people's blind answers say, as numbers: who is preferred, how far people agree, and whether the simulator's emotion says the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean, median
from typing import Any

from components.evaluation.blind.agreement import Agreement, agreement
from components.evaluation.blind.answers import Choice, Preference, StudyPair, Verdict
from components.evaluation.blind.emotion import EmotionAgreement, Point, emotion_agreement
from components.evaluation.blind.judgements import WORTH, Judged
from components.evaluation.blind.resampling import Rated, share
from components.evaluation.statistics import Estimated, minimum_detectable_difference


@dataclass(frozen=True)
class Preferred:
    """How often b is preferred to a: a tie counts half."""

    judgements: int
    a: int
    tie: int
    b: int
    win_rate: Estimated


@dataclass(frozen=True)
class Rater:
    """One person. `left_rate`: of the sides they chose, how many stood on the left; far from a half, it is the place that was chosen."""

    rater: str
    preferred: Preferred
    left_rate: Estimated | None
    confidence: float  # mean, 1..3
    seconds: float | None  # median of a judgement


@dataclass(frozen=True)
class Compared:
    """What people said of pairs of dialogues."""

    a: str
    b: str
    simulator: str
    pairs: int  # that somebody judged
    preferred: Preferred
    detectable: float  # smallest distance of the win rate from 0.5 that as many answers find with 80% power
    left_rate: Estimated | None
    raters: tuple[Rater, ...]
    agreement: Agreement | None
    emotion: EmotionAgreement | None


@dataclass(frozen=True)
class Talked:
    """What people said after talking with two models. The interval is over people; of a single person over their talks."""

    a: str
    b: str
    preferred: Preferred
    raters: int


@dataclass(frozen=True)
class HumanReport:
    """`compared` is None where no pair was judged."""

    compared: Compared | None
    talked: tuple[Talked, ...]
    revised: int

    def as_json(self) -> dict[str, Any]:
        """Plain objects, lists and numbers."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def human_report(judged: Judged, samples: int, seed: int, emotions: Mapping[str, int | None] | None = None) -> HumanReport:
    """`emotions`: final ones by dialogue_id, which replace those that were noted when the study began. Raises ValueError without answers."""
    if not judged.choices and not judged.verdicts:
        raise ValueError("nobody has answered yet")
    compared = _compared(judged, samples, seed, emotions) if judged.choices else None
    by_policies: dict[tuple[str, str], list[Rated]] = defaultdict(list)
    verdicts: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for talk, verdict in judged.verdicts:
        by_policies[talk.a, talk.b].append(Rated(talk.talk_id, verdict.rater, WORTH[verdict.preference]))
        verdicts[talk.a, talk.b].append(verdict)
    talked = tuple(
        Talked(*policies, _preferred(verdicts[policies], _talk_clusters(rated), samples, seed), len({one.rater for one in rated}))
        for policies, rated in sorted(by_policies.items())
    )
    return HumanReport(compared, talked, judged.revised)


def _compared(judged: Judged, samples: int, seed: int, emotions: Mapping[str, int | None] | None) -> Compared:
    assert judged.study is not None  # its pairs were judged
    pairs = {pair.pair_id: pair if emotions is None else _as_felt(pair, emotions) for pair in judged.study.pairs}
    persona_of = {pair.pair_id: pair.persona_id for pair in pairs.values()}
    by_rater: dict[str, list[Choice]] = defaultdict(list)
    by_pair: dict[str, dict[str, Preference]] = defaultdict(dict)
    for choice in judged.choices:
        by_rater[choice.rater].append(choice)
        by_pair[choice.pair_id][choice.rater] = choice.preference

    def preferred(choices: Sequence[Choice]) -> Preferred:
        return _preferred(choices, [Rated(persona_of[c.pair_id], c.rater, WORTH[c.preference]) for c in choices], samples, seed)

    def left(choices: Sequence[Choice]) -> Estimated | None:
        sided = [Rated(persona_of[c.pair_id], c.rater, float(c.preference == c.left)) for c in choices if c.preference != "tie"]
        return share(sided, samples, seed) if sided else None

    overall = preferred(judged.choices)
    return Compared(
        a=judged.study.a,
        b=judged.study.b,
        simulator=judged.study.simulator,
        pairs=len(by_pair),
        preferred=overall,
        detectable=_detectable(overall.win_rate),
        left_rate=left(judged.choices),
        raters=tuple(
            Rater(
                rater=rater,
                preferred=preferred(choices),
                left_rate=left(choices),
                confidence=fmean(choice.confidence for choice in choices),
                seconds=median(times) if (times := [choice.seconds for choice in choices if choice.seconds is not None]) else None,
            )
            for rater, choices in sorted(by_rater.items())
        ),
        agreement=agreement(by_pair, persona_of, samples, seed),
        emotion=emotion_agreement(points(pairs, judged.choices), samples, seed),
    )


def points(pairs: Mapping[str, StudyPair], choices: Sequence[Choice]) -> list[Point]:
    """One per judged pair whose emotions are known on both sides."""
    leaning: dict[str, list[float]] = defaultdict(list)
    for choice in choices:
        leaning[choice.pair_id].append((2 * WORTH[choice.preference] - 1) * choice.confidence)
    found = []
    for pair_id, said in sorted(leaning.items()):
        pair = pairs[pair_id]
        if pair.emotion_a is not None and pair.emotion_b is not None:
            found.append(Point(pair.persona_id, fmean(said), pair.emotion_b - pair.emotion_a))
    return found


def _as_felt(pair: StudyPair, emotions: Mapping[str, int | None]) -> StudyPair:
    return pair.model_copy(update={"emotion_a": emotions.get(pair.dialogue_a), "emotion_b": emotions.get(pair.dialogue_b)})


def _preferred(answers: Sequence[Choice | Verdict], rated: Sequence[Rated], samples: int, seed: int) -> Preferred:
    counts = {side: sum(answer.preference == side for answer in answers) for side in WORTH}
    return Preferred(len(answers), counts["a"], counts["tie"], counts["b"], share(rated, samples, seed))


def _talk_clusters(rated: Sequence[Rated]) -> list[Rated]:
    """Every talk is one person's: where there are several people they are what is resampled, else their talks."""
    several = len({one.rater for one in rated}) > 1
    return [Rated(one.rater if several else one.persona_id, "everybody", one.value) for one in rated]


def _detectable(win_rate: Estimated) -> float:
    standard_error = (win_rate.ci95.high - win_rate.ci95.low) / 2 / NormalDist().inv_cdf(0.975)
    return minimum_detectable_difference(standard_error, 1)
