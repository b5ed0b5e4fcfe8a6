"""What people's blind answers say, as numbers: who is preferred, how far people agree, and whether the simulator's emotion says the same.

One judgement counts for each person and pair, or person and talk. Whether people prefer what the simulated user felt better with: one
point per pair.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean, median
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from rlver.components.domain.files import BadFile
from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster, minimum_detectable_difference, pearson, wilson
from rlver.tasks.studies.blind.agreement import Rated, RaterAgreement, agreement, by_persona, share
from rlver.tasks.studies.blind.answers import Choice, Preference, Row, Study, StudyPair, TalkBegun, TalkVerdict, words_of
from rlver.tasks.studies.blind.silence import Silence, silence_of, silent_talks

WORTH: dict[Preference, float] = {"a": 0.0, "tie": 0.5, "b": 1.0}


@dataclass(frozen=True)
class Judged:
    """The study of a file, the last answer of every person to every pair, and every judged talk in which both replied, with its verdict."""

    study: Study | None
    choices: tuple[Choice, ...]
    verdicts: tuple[tuple[TalkBegun, TalkVerdict], ...]
    revised: int  # answers that a later one replaced
    silence: Mapping[tuple[str, str], Silence]  # by the two that talked


def judged(rows: Sequence[Row]) -> Judged:
    """Raises BadFile when an answer is about a pair or a talk that the file does not have."""
    study = next((row for row in rows if isinstance(row, Study)), None)
    known = {pair.pair_id for pair in study.pairs} if study else set()
    talks = {row.talk_id: row for row in rows if isinstance(row, TalkBegun)}
    choices: dict[tuple[str, str], Choice] = {}
    verdicts: dict[str, TalkVerdict] = {}
    seen: set[tuple[object, ...]] = set()
    revised = 0
    for row in rows:
        if not isinstance(row, Choice | TalkVerdict) or row.content in seen:
            continue
        seen.add(row.content)
        if isinstance(row, Choice):
            if row.pair_id not in known:
                raise BadFile(f"an answer of {row.rater} is about the pair {row.pair_id}, which is not in the file's first line")
            if before := choices.get((row.rater, row.pair_id)):
                if row.judgement == before.judgement:  # looked at again; how long it took the first time counts
                    continue
                revised += 1
            choices[row.rater, row.pair_id] = row
        else:
            if row.talk_id not in talks:
                raise BadFile(f"an answer of {row.rater} is about the talk {row.talk_id}, which is not in the file")
            revised += row.talk_id in verdicts and row.judgement != verdicts[row.talk_id].judgement
            verdicts[row.talk_id] = row
    silent = silent_talks(rows) & verdicts.keys()
    both = tuple((talks[talk], verdict) for talk, verdict in verdicts.items() if talk not in silent)
    return Judged(study, tuple(choices.values()), both, revised, silence_of(rows, silent))


class PreferencePoint(NamedTuple):
    """A pair: `preferred` in -3..3, `emotion` in -100..100."""

    persona_id: str
    preferred: float
    emotion: float


@dataclass(frozen=True)
class EmotionAgreement:
    """Estimates over `pairs`. None: undefined, as where all emotions differ alike."""

    pairs: int
    sign_pairs: int  # of them, where people lean to a side and the emotions differ
    sign: Estimated | None  # people lean to the side with the better emotion
    point_biserial: Estimated | None  # Pearson between the side people lean to and the emotion difference, where they lean to one
    spearman: Estimated | None  # between how strongly people lean and the emotion difference


def emotion_agreement(points: Sequence[PreferencePoint], samples: int, seed: int) -> EmotionAgreement | None:
    """With 95% intervals over personas. None without points."""
    if not points:
        return None
    preferred = np.array([point.preferred for point in points])
    emotion = np.array([point.emotion for point in points])
    rows = by_cluster((point.persona_id, row) for row, point in enumerate(points))
    decided = {persona: kept for persona, members in rows.items() if (kept := [row for row in members if preferred[row]])}

    def correlated(x: np.ndarray, of: dict[str, list[int]], ranks: bool) -> Estimated | None:
        def statistic(chosen: np.ndarray) -> float | None:
            sides = (x[chosen], emotion[chosen])
            r = float(pearson(*(map(rankdata, sides) if ranks else sides)))
            return None if math.isnan(r) else r

        return by_persona(of, statistic, samples, seed, Interval(-1.0, 1.0))

    clear = [row for row in range(len(points)) if preferred[row] and emotion[row]]
    return EmotionAgreement(
        pairs=len(points),
        sign_pairs=len(clear),
        sign=_sign(preferred[clear] * emotion[clear] > 0, len({points[row].persona_id for row in clear})) if clear else None,
        point_biserial=correlated(np.sign(preferred), decided, ranks=False),
        spearman=correlated(preferred, rows, ranks=True),
    )


def _sign(same: np.ndarray, personas: int) -> Estimated:
    """Wilson's interval with as many trials as personas: careful (too wide) for repeats."""
    share = float(same.mean())
    return Estimated(share, wilson(share, personas), personas)


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
    appraiser: str  # of the emotions: the simulator, or whose they are that replaced its own
    pairs: int  # that somebody judged
    preferred: Preferred
    detectable: (
        float | None
    )  # smallest distance of the win rate from 0.5 that as many answers find with 80% power; None once a side is preferred
    left_rate: Estimated | None
    raters: tuple[Rater, ...]
    agreement: RaterAgreement | None
    emotion: EmotionAgreement | None


@dataclass(frozen=True)
class Talked:
    """What people said after talking with two models. The interval is over people; of a single person over their talks."""

    a: str
    b: str
    preferred: Preferred
    raters: int
    silence: Silence


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


def human_report(
    judged: Judged, samples: int, seed: int, emotions: Mapping[str, int | None] | None = None, appraiser: str = ""
) -> HumanReport:
    """`emotions`: final ones by dialogue_id, which replace those that were noted when the study began, and whose they are.

    Raises ValueError without answers.
    """
    if not judged.choices and not judged.verdicts:
        if any(one.left_out for one in judged.silence.values()):
            raise ValueError("in every talk that was judged a side never replied; mend what the file of answers says of it, and talk again")
        raise ValueError("nobody has answered yet; open the page with `rlver blind` and answer")
    compared = _compared(judged, samples, seed, emotions, appraiser) if judged.choices else None
    verdicts: dict[tuple[str, str], list[TalkVerdict]] = defaultdict(list)
    for talk, verdict in judged.verdicts:
        verdicts[talk.a, talk.b].append(verdict)
    talked = tuple(
        Talked(*policies, _preferred(of, _talk_clusters(of), samples, seed), len({one.rater for one in of}), judged.silence[policies])
        for policies, of in sorted(verdicts.items())
    )
    return HumanReport(compared, talked, judged.revised)


def _compared(judged: Judged, samples: int, seed: int, emotions: Mapping[str, int | None] | None, appraiser: str) -> Compared:
    assert judged.study is not None  # its pairs were judged
    if emotions is not None and {one.dialogue_a for one in judged.study.pairs} & {one.dialogue_b for one in judged.study.pairs}:
        raise ValueError(
            "dialogues of both sides have the same ids, so --transcripts cannot tell them apart: "
            "give each side's ids a prefix, and compare anew"
        )
    pairs = {pair.pair_id: pair if emotions is None else _as_felt(pair, emotions) for pair in judged.study.pairs}
    persona_of = {pair.pair_id: pair.persona_id for pair in pairs.values()}
    by_rater = by_cluster((choice.rater, choice) for choice in judged.choices)
    of_pairs = by_cluster((choice.pair_id, choice) for choice in judged.choices)
    by_pair = {pair: {choice.rater: choice.preference for choice in choices} for pair, choices in of_pairs.items()}

    def preferred(choices: Sequence[Choice]) -> Preferred:
        return _preferred(choices, [Rated(persona_of[c.pair_id], c.rater, WORTH[c.preference]) for c in choices], samples, seed)

    def left(choices: Sequence[Choice]) -> Estimated | None:
        sided = [Rated(persona_of[c.pair_id], c.rater, float(c.preference == c.left)) for c in choices if c.preference != "tie"]
        return share(sided, samples, seed) if sided else None

    overall = preferred(judged.choices)
    low, high = overall.win_rate.ci95
    return Compared(
        a=judged.study.a,
        b=judged.study.b,
        simulator=judged.study.simulator,
        appraiser=appraiser or judged.study.simulator,
        pairs=len(by_pair),
        preferred=overall,
        detectable=minimum_detectable_difference((high - low) / 2 / NormalDist().inv_cdf(0.975), 1) if low <= 0.5 <= high else None,
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


def points(pairs: Mapping[str, StudyPair], choices: Sequence[Choice]) -> list[PreferencePoint]:
    """One per judged pair whose emotions are known on both sides."""
    leaning = by_cluster((choice.pair_id, (2 * WORTH[choice.preference] - 1) * choice.confidence) for choice in choices)
    found = []
    for pair_id, said in sorted(leaning.items()):
        pair = pairs[pair_id]
        if pair.emotion_a is not None and pair.emotion_b is not None:
            found.append(PreferencePoint(pair.persona_id, fmean(said), pair.emotion_b - pair.emotion_a))
    return found


def refuse_other_words(study: Study, dialogues: Iterable[Dialogue]) -> None:
    """Raise ValueError where scored dialogues have the ids of those that people read and other words, as after they were held anew."""
    read = {
        name: words for pair in study.pairs for name, words in ((pair.dialogue_a, pair.words_a), (pair.dialogue_b, pair.words_b)) if words
    }
    of_these = [one for one in dialogues if one.dialogue_id in read and one.emotion_final is not None]
    others = sum(words_of(one) != read[one.dialogue_id] for one in of_these)
    if others:
        raise ValueError(
            f"--transcripts has other words in {others} of {len(of_these)} dialogues than people read: they were held anew; appraise the files that "
            "were judged"
        )


def _as_felt(pair: StudyPair, emotions: Mapping[str, int | None]) -> StudyPair:
    return pair.model_copy(update={"emotion_a": emotions.get(pair.dialogue_a), "emotion_b": emotions.get(pair.dialogue_b)})


def _preferred(answers: Sequence[Choice | TalkVerdict], rated: Sequence[Rated], samples: int, seed: int) -> Preferred:
    counts = {side: sum(answer.preference == side for answer in answers) for side in WORTH}
    return Preferred(len(answers), counts["a"], counts["tie"], counts["b"], share(rated, samples, seed))


def _talk_clusters(verdicts: Sequence[TalkVerdict]) -> list[Rated]:
    """Every talk is one person's: where there are several people they are what is resampled, else their talks."""
    several = len({one.rater for one in verdicts}) > 1
    return [Rated(one.rater if several else one.talk_id, "everybody", WORTH[one.preference]) for one in verdicts]
