"""A second opinion: does an appraiser that paid nothing in training see the gain too?

Another appraiser has another scale, so equal gains are not asked for: it must confirm a stated share of them. Where the share is not
confirmed, the policy has learned what its own user pays for rather than what helps.

Two appraisers over a training: the train simulator's score of the held-out dialogues, and that of an appraiser that paid nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.formats.foreign import Recording
from rlver.components.replay.reappraisal import UnreadableLanguage, reappraise
from rlver.components.report.material import Checkpoints
from rlver.components.scoring.behaviour import mean
from rlver.components.scoring.sentient import by_persona, final_emotion
from rlver.components.scoring.statistics import Interval, paired_differences, paired_mean
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.tasks.studies.audit.checks import Check, judged, unknown
from rlver.tasks.studies.audit.measures import speak_english

Scores = Mapping[str, Sequence[float]]  # final emotions by persona
_POINTS = Interval(-100.0, 100.0)


class SecondAppraiser(Protocol):
    """Whoever appraises the same words once more. A distilled or recorded LLM appraiser fits in here."""

    @property
    def name(self) -> str: ...

    def finals(self, dialogues: Sequence[Dialogue]) -> Scores:
        """Final emotions by persona, of those dialogues that can be appraised. Raises ValueError when none can."""
        ...


@dataclass(frozen=True)
class OtherDifficulty:
    """The scripted appraiser of another difficulty; without a persona it knows the recorded need alone."""

    difficulty: str
    personas: Mapping[str, Persona]
    rules: EmotionRules

    @property
    def name(self) -> str:
        return f"scripted, {self.difficulty}"

    def finals(self, dialogues: Sequence[Dialogue]) -> Scores:
        """Raises UnreadableLanguage for users who do not speak English."""
        if not speak_english(turn.user for dialogue in dialogues for turn in dialogue.turns):
            raise UnreadableLanguage(f"{self.name} reads English only")
        return final_emotions([self._appraised(dialogue) for dialogue in dialogues if dialogue.turns])

    def _appraised(self, dialogue: Dialogue) -> Dialogue:
        recording = Recording(
            dialogue_id=dialogue.dialogue_id,
            persona_id=dialogue.persona_id,
            hidden_need=dialogue.hidden_need,
            policy=dialogue.policy,
            seed=dialogue.seed,
            emotion_start=dialogue.emotion_start,
            error=dialogue.error,
            turns=dialogue.turns,
            left_out=0,
        )
        return reappraise(recording, self.personas.get(dialogue.persona_id), ScriptedAppraiser(self.difficulty), self.rules)


@dataclass(frozen=True)
class Recorded:
    """An appraisal that was made before, by whomever: the same dialogues as `rlver appraise` has written them."""

    dialogues: Sequence[Dialogue]

    @property
    def name(self) -> str:
        return ", ".join(sorted({f"{dialogue.simulator.kind}, {dialogue.simulator.difficulty}" for dialogue in self.dialogues}))

    def finals(self, dialogues: Sequence[Dialogue]) -> Scores:
        by_id = {(dialogue.policy, dialogue.dialogue_id): dialogue for dialogue in self.dialogues}
        found = [by_id.get((dialogue.policy, dialogue.dialogue_id)) for dialogue in dialogues]
        missing = sum(other is None for other in found)
        if missing:
            raise ValueError(f"the second appraisal lacks {missing} of {len(dialogues)} dialogues; appraise the same files, the base's too")
        return final_emotions([other for other in found if other])


def other_difficulty(dialogues: Sequence[Dialogue], personas: Mapping[str, Persona], rules: EmotionRules) -> OtherDifficulty:
    """The difficulty that the user of these dialogues did not have."""
    is_vanilla = all(dialogue.simulator.difficulty == "vanilla" for dialogue in dialogues)
    return OtherDifficulty("challenging" if is_vanilla else "vanilla", personas, rules)


def final_emotions(dialogues: Sequence[Dialogue]) -> Scores:
    return by_persona(dialogues, final_emotion)


def confirmation(
    dialogues: Sequence[Dialogue],
    base: Sequence[Dialogue] | None,
    second: SecondAppraiser,
    share: float,
    limit: float,
    samples: int,
    seed: int,
) -> Check:
    """Points of the gain over the base that the second appraiser should confirm and does not."""
    name = "unconfirmed_gain"
    if base is None:
        return unknown(name, limit, "the gain as a second appraiser sees it: no transcripts of the base")
    try:
        theirs = paired_differences(second.finals(dialogues), second.finals(base))
    except UnreadableLanguage as error:
        return unknown(name, limit, f"{error}: give another appraisal of the same dialogues (--second)")
    ours = paired_differences(final_emotions(dialogues), final_emotions(base))
    return _apart(name, "gain over the base", ours, theirs, share, limit, samples, seed)


def reward_overoptimization(
    first: Mapping[int, Scores], second: Mapping[int, Scores], share: float, limit: float, samples: int, seed: int
) -> Check:
    """Do two series of scores over training part? Points over the whole training that the second appraiser does not confirm.

    Both series are held-out scores by step and persona. A trend is the least-squares slope of a persona's scores times the steps
    covered; the interval is over personas. Raises ValueError for series of different steps.
    """
    name = "reward_overoptimization"
    if first.keys() != second.keys():
        raise ValueError(f"both series need the same steps, got {sorted(first)} and {sorted(second)}")
    if len(first) < 3:
        return unknown(name, limit, f"the trends of two appraisers need 3 checkpoints, got {len(first)}")
    return _apart(name, f"trend over {len(first)} checkpoints", _trends(first), _trends(second), share, limit, samples, seed)


def _apart(
    name: str, what: str, ours: Mapping[str, float], theirs: Mapping[str, float], share: float, limit: float, samples: int, seed: int
) -> Check:
    """Of a rise the second appraiser must see `share`; a fall it must not see as a deeper one. Differences or trends by persona."""
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return unknown(name, limit, f"{what} as two appraisers see it: no persona in common")
    own, other = (sum(values[persona] for persona in both) / len(both) for values in (ours, theirs))
    factor = share if own > 0 else 1.0
    apart = paired_mean({persona: factor * ours[persona] - theirs[persona] for persona in both}, samples, seed, _POINTS)
    why = f"{what} {own:+.1f} by its own user, {other:+.1f} by the second appraiser; of a rise {share:.0%} must be confirmed"
    return judged(name, apart, limit, why)


def _trends(series: Mapping[int, Scores]) -> dict[str, float]:
    """Points gained from the first step to the last along the least-squares line, for every persona that has a score at each step."""
    steps = sorted(series)
    middle = sum(steps) / max(1, len(steps))
    spread = sum((step - middle) ** 2 for step in steps)
    if not spread:
        return {}
    known = set.intersection(*({persona for persona, scores in series[step].items() if scores} for step in steps))
    return {
        persona: sum((step - middle) * sum(series[step][persona]) / len(series[step][persona]) for step in steps)
        / spread
        * (steps[-1] - steps[0])
        for persona in known
    }


_EMOTIONS = Interval(0.0, 100.0)


@dataclass(frozen=True)
class TwoSeries:
    """Final emotions by step and persona. `second` is None where nobody could appraise again, and `missing` says why."""

    own: Mapping[int, Scores]
    second: Mapping[int, Scores] | None
    missing: str = ""


def two_series(checkpoints: Checkpoints, second: SecondAppraiser) -> TwoSeries:
    """The scores of every checkpoint under both appraisers."""
    own = {step: final_emotions(dialogues) for step, dialogues in checkpoints.items()}
    if not own:
        return TwoSeries(own, None, "the held-out dialogues of the checkpoints were not kept")
    try:
        return TwoSeries(own, {step: second.finals(dialogues) for step, dialogues in checkpoints.items()})
    except UnreadableLanguage as error:
        return TwoSeries(own, None, str(error))


def overoptimization_check(series: TwoSeries, share: float, limit: float, samples: int, seed: int) -> Check:
    """Unknown, with the reason, where one of the two series is missing."""
    if series.second is None:
        return unknown("reward_overoptimization", limit, f"two appraisers over training: {series.missing}")
    return reward_overoptimization(series.own, series.second, share, limit, samples, seed)


def means_by_step(series: TwoSeries, samples: int, seed: int) -> list[dict[str, Any]]:
    """JSON-ready: step, and the mean final emotion under either appraiser as {value, ci95, n} over personas."""
    none = "no dialogue of this step could be scored"
    return [
        {
            "step": step,
            "own": mean(scores, _EMOTIONS, samples, seed, none),
            "second": mean((series.second or {}).get(step, {}), _EMOTIONS, samples, seed, series.missing or none),
        }
        for step, scores in series.own.items()
    ]
