"""Does an appraiser hold to its own word? Recorded replies are appraised again: the same question, the earlier exchanges in another order,
the same person in other words.

All askings start from the recorded emotion, so that one differing answer does not move the questions after it. A repeat has a seed of its
own: to a model it is another draw, and its answer is stored and paid for separately.

The same person in other words: what an appraiser is told about the user, with nothing added and nothing left out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import variance as sample_variance
from typing import Any

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, Exchange, SimulatorUnavailable, exchanges_of
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.tables import plain_table
from rlver.components.scoring import statistics
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.tasks.runtime.brackets import shown

AGAIN, REORDERED, PARAPHRASED = "asked again", "context reordered", "persona paraphrased"
_SEED_STEP = 1_000_003  # far from the seeds of repeated dialogues, whose answers may be stored already
_CHANGES, _SHARES = Interval(0.0, 20.0), Interval(0.0, 1.0)
_VARIANCES = Interval(0.0, 200.0)  # of two answers, one -10 and one +10


@dataclass(frozen=True)
class Asking:
    """One reply appraised several times under one probe; `changes[0]` is the plain first answer, the same in every probe.

    Without a first answer there is nothing to compare with, and all the others count as unanswered."""

    persona_id: str
    probe: str
    changes: tuple[int, ...]
    unanswered: int


@dataclass(frozen=True)
class Consistency:
    """One probe. `variance`: unbiased, within a reply, in points squared; the other three compare each later answer with the first."""

    probe: str
    replies: int
    answers: int  # first answers left out
    unanswered: int  # the model gave none that can be read, after bounded repairs
    variance: Estimated
    mean_difference: Estimated  # absolute, in points of -10..10
    same_direction: Estimated  # share: both up, both down or both neither
    identical: Estimated  # share

    @property
    def is_exact(self) -> bool:
        """Every answer was the first one again."""
        return self.variance.value == 0 and self.identical.value == 1


async def ask_again(appraiser: AppraiserKind, dialogue: Dialogue, persona: Persona, times: int) -> list[Asking]:
    """Every appraised reply of a dialogue under every probe. A context of fewer than two exchanges has no other order."""
    if times < 2:
        raise ValueError(f"to compare answers, ask at least 2 times, got {times}")
    turns = [turn for turn in dialogue.turns if turn.appraisal is not None]
    exchanges = exchanges_of(turns)
    before = [dialogue.emotion_start, *(turn.emotion for turn in turns if turn.emotion is not None)]
    other_words = paraphrased(persona)
    asked = [
        _probe_reply(appraiser, dialogue, exchanges[: number + 1], before[number], (persona, other_words), times)
        for number in range(len(turns))
    ]
    return [asking for of_reply in await asyncio.gather(*asked) for asking in of_reply]


async def _probe_reply(
    appraiser: AppraiserKind, dialogue: Dialogue, exchanges: Sequence[Exchange], emotion: int, wordings: tuple[Persona, Persona], times: int
) -> list[Asking]:
    """`wordings`: the persona as it is and in other words."""
    *earlier, last = exchanges
    persona, other_words = wordings
    seeds = [dialogue.seed + _SEED_STEP * repeat for repeat in range(times)]
    questions = [(AGAIN, persona, exchanges, seed) for seed in seeds]
    questions.append((PARAPHRASED, other_words, exchanges, seeds[0]))
    if len(earlier) >= 2:
        questions.append((REORDERED, persona, [*reversed(earlier), last], seeds[0]))
    answers = await asyncio.gather(*(_answer(appraiser, who, said, emotion, seed) for _, who, said, seed in questions))
    told = [(question[0], answer) for question, answer in zip(questions, answers, strict=True)]
    first = answers[0]
    return [
        _asking(persona.persona_id, probe, first, [answer for about, answer in told[1:] if about == probe])
        for probe in dict.fromkeys(probe for probe, _ in told)
    ]


async def _answer(appraiser: AppraiserKind, persona: Persona, exchanges: Sequence[Exchange], emotion: int, seed: int) -> int | None:
    try:
        return (await appraiser.appraiser(About(persona), seed).appraise(exchanges, emotion)).change
    except SimulatorUnavailable:
        return None


def _asking(persona_id: str, probe: str, first: int | None, later: Sequence[int | None]) -> Asking:
    known = () if first is None else (first, *(change for change in later if change is not None))
    return Asking(persona_id, probe, known, unanswered=len(later) - max(0, len(known) - 1))


def consistency_of(askings: Sequence[Asking], samples: int, seed: int) -> list[Consistency]:
    """One row per probe that was asked, intervals by persona bootstrap (shares: Wilson's). Raises ValueError without answers."""
    probes = [probe for probe in (AGAIN, REORDERED, PARAPHRASED) if any(one.probe == probe and len(one.changes) > 1 for one in askings)]
    if not probes:
        raise ValueError(f"no reply was appraised twice; {sum(one.unanswered for one in askings)} questions were left unanswered")
    return [_row(probe, [one for one in askings if one.probe == probe], samples, seed) for probe in probes]


def _row(probe: str, askings: Sequence[Asking], samples: int, seed: int) -> Consistency:
    variance, difference, direction, identical = (dict[str, list[float]]() for _ in range(4))
    compared = [one for one in askings if len(one.changes) > 1]
    for one in compared:
        first, *later = one.changes
        variance.setdefault(one.persona_id, []).append(float(sample_variance(one.changes)))
        difference.setdefault(one.persona_id, []).extend(float(abs(change - first)) for change in later)
        direction.setdefault(one.persona_id, []).extend(float(_sign(change) == _sign(first)) for change in later)
        identical.setdefault(one.persona_id, []).extend(float(change == first) for change in later)

    def mean(values: Mapping[str, Sequence[float]], whole: Interval) -> Estimated:
        return statistics.cluster_bootstrap(values, samples, seed, whole)

    return Consistency(
        probe,
        replies=len(compared),
        answers=sum(len(one.changes) - 1 for one in compared),
        unanswered=sum(one.unanswered for one in askings),
        variance=mean(variance, _VARIANCES),
        mean_difference=mean(difference, _CHANGES),
        same_direction=statistics.proportion(direction),
        identical=statistics.proportion(identical),
    )


def _sign(change: int) -> int:
    return (change > 0) - (change < 0)


_ENGLISH = {
    "want": "would like", "wants": "would like", "the other side": "the person on the other side", "quickly": "fast", "likes": "enjoys",
    "speaks": "talks", "small": "little", "reply": "answer", "particular": "specific", "truly": "really", "sincerely": "honestly",
    "closely": "attentively", "together": "jointly", "difficulty": "trouble", "a few": "some", "often": "frequently",
    "tends to": "is inclined to",
}  # fmt: skip
_PATTERN = re.compile(rf"\b(?:{'|'.join(sorted(_ENGLISH, key=len, reverse=True))})\b")


def paraphrased(persona: Persona) -> Persona:
    """Deterministic; id, story and everything that the scripted user goes by stay as they are."""
    return persona.model_copy(
        update={
            "need_text": _reworded(persona.need_text, persona),
            "traits": tuple(reversed(persona.traits)),
            "portrait": _reworded(_rearranged(persona.portrait, persona.language), persona),
            "background": _reworded(persona.background, persona),
            "reactions": {key: _reworded(persona.reactions[key], persona) for key in reversed(persona.reactions)},
        }
    )


def _rearranged(text: str, language: str) -> str:
    """The first sentence, which says who it is, then the others from the last to the second."""
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n+", text)
    first, *others = [sentence for sentence in sentences if sentence]
    return (" " if language == "en" else "\n").join([first, *reversed(others)])


def _reworded(text: str, persona: Persona) -> str:
    return _PATTERN.sub(lambda match: _ENGLISH[match.group()], text) if persona.language == "en" else text


def table(rows: Sequence[Consistency]) -> str:
    header = ("probe", "replies", "answers (none)", "variance", "absolute difference", "same direction", "identical")
    return plain_table(
        header,
        (
            (
                f"{row.probe}{', exactly the same' if row.is_exact else ''}",
                row.replies,
                f"{row.answers} ({row.unanswered})",
                *map(shown, (row.variance, row.mean_difference)),
                *(shown(one, ".1%") for one in (row.same_direction, row.identical)),
            )
            for row in rows
        ),
    )


def as_json(row: Consistency) -> dict[str, Any]:
    def estimated(one: Estimated) -> dict[str, Any]:
        return {"value": round(one.value, 6), "ci95": [round(end, 6) for end in one.ci95]}

    return {
        "probe": row.probe,
        "replies": row.replies,
        "answers": row.answers,
        "unanswered": row.unanswered,
        "exact": row.is_exact,
        "variance": estimated(row.variance),
        "mean_difference": estimated(row.mean_difference),
        "same_direction": estimated(row.same_direction),
        "identical": estimated(row.identical),
    }
