"""Does an appraiser hold to its own word? Recorded replies are appraised again: the same question, the earlier exchanges in another order,
the same person in other words.

All askings start from the recorded emotion, so that one differing answer does not move the questions after it. A repeat has a seed of its
own: to a model it is another draw, and its answer is stored and paid for separately.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import variance as sample_variance
from typing import Any

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, AppraiserKind, Exchange, SimulatorUnavailable, exchanges_of
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.tables import plain_table
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster
from rlver.components.scoring.units import Sampling
from rlver.tasks.runtime.brackets import shown

AGAIN, REORDERED, PARAPHRASED = "asked again", "context reordered", "persona paraphrased"
_SEED_STEP = 1_000_003  # far from the seeds of repeated dialogues, whose answers may be stored already
_CHANGES = Interval(0.0, 20.0)
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
    seeds = [dialogue.seed + _SEED_STEP * repeat for repeat in range(times)]

    async def answer(who: Persona, said: Sequence[Exchange], seed: int) -> int | None:
        try:
            return (await appraiser.appraiser(About(who), seed).appraise(said, before[len(said) - 1])).change
        except SimulatorUnavailable:
            return None

    async def probed(said: list[Exchange]) -> list[Asking]:
        """The last of `said` under every probe."""
        *earlier, last = said
        questions = [(AGAIN, persona, said, seed) for seed in seeds]
        questions.append((PARAPHRASED, other_words, said, seeds[0]))
        if len(earlier) >= 2:
            questions.append((REORDERED, persona, [*reversed(earlier), last], seeds[0]))
        first, *later = await asyncio.gather(*(answer(who, context, seed) for _, who, context, seed in questions))
        answers = by_cluster((probe, change) for (probe, *_), change in zip(questions[1:], later, strict=True))
        return [_asking(persona.persona_id, probe, first, changes) for probe, changes in answers.items()]

    asked = await asyncio.gather(*(probed(exchanges[: number + 1]) for number in range(len(turns))))
    return [asking for of_reply in asked for asking in of_reply]


def _asking(persona_id: str, probe: str, first: int | None, later: Sequence[int | None]) -> Asking:
    known = () if first is None else (first, *(change for change in later if change is not None))
    return Asking(persona_id, probe, known, unanswered=len(later) - max(0, len(known) - 1))


def consistency_of(askings: Sequence[Asking], how: Sampling) -> list[Consistency]:
    """One row per probe that was asked, with intervals over the units of `how` (shares: Wilson's). Raises ValueError without answers."""
    probes = [probe for probe in (AGAIN, REORDERED, PARAPHRASED) if any(one.probe == probe and len(one.changes) > 1 for one in askings)]
    if not probes:
        raise ValueError(f"no reply was appraised twice; {sum(one.unanswered for one in askings)} questions were left unanswered")
    return [_row(probe, [one for one in askings if one.probe == probe], how) for probe in probes]


def _row(probe: str, askings: Sequence[Asking], how: Sampling) -> Consistency:
    compared = [one for one in askings if len(one.changes) > 1]
    variances = by_cluster((one.persona_id, float(sample_variance(one.changes))) for one in compared)

    def to_first(measure: Callable[[int, int], float]) -> dict[str, list[float]]:
        """By persona: the measure of every first answer and each later one."""
        return by_cluster((one.persona_id, float(measure(one.changes[0], later))) for one in compared for later in one.changes[1:])

    return Consistency(
        probe,
        replies=len(compared),
        answers=sum(len(one.changes) - 1 for one in compared),
        unanswered=sum(one.unanswered for one in askings),
        variance=how.mean(variances, _VARIANCES),
        mean_difference=how.mean(to_first(lambda first, later: abs(later - first)), _CHANGES),
        same_direction=how.units.share(to_first(lambda first, later: _sign(later) == _sign(first))),
        identical=how.units.share(to_first(lambda first, later: later == first)),
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
    """The same person in other words, nothing added and nothing left out. Deterministic; id, story and everything that the scripted user goes by stay as they are."""
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
        **{name: getattr(row, name) for name in ("probe", "replies", "answers", "unanswered")},
        "exact": row.is_exact,
        **{name: estimated(getattr(row, name)) for name in ("variance", "mean_difference", "same_direction", "identical")},
    }
