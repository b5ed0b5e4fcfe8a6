"""Which user a persona is during training: easy, harsh, or growing with the policy.

The RLVER paper found that harsh users starve an early policy of reward (section 4.4). `staged` goes through the difficulties in equal
shares of the run; `adaptive` mixes two of them, need by need, so that the reward keeps its variance: the better the policy did lately
with users of a need, the more of them are of the second kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from components.dialogue.transcript import Dialogue
from components.personas.persona import HiddenNeed, Persona

_MEMORY = 0.8  # how much of what was known before weighs against a step's mean


@dataclass
class Curriculum:
    """`none`: the one difficulty · `staged`: one after the other · `adaptive`: the second in place of the first as emotions rise from
    `low`, where nobody is of the second kind, to `high`, where all are."""

    kind: str
    difficulties: Sequence[str]
    steps: int
    low: float
    high: float
    seed: int
    recent: dict[HiddenNeed, float] = field(default_factory=dict)  # moving mean of the final emotion, in 0..100

    def difficulty(self, persona: Persona, step: int) -> str:
        """Of this persona at this step (from 0): the same for all dialogues of its group, and for whoever resumes the run."""
        if self.kind == "none":
            return self.difficulties[0]
        if self.kind == "staged":
            return self.difficulties[min(len(self.difficulties) - 1, step * len(self.difficulties) // self.steps)]
        draw = Random(f"{self.seed}|{step}|{persona.persona_id}").random()
        return self.difficulties[int(draw < self.share(persona.hidden_need))]

    def share(self, need: HiddenNeed) -> float:
        """The share of users with this need that are of the second kind."""
        return min(1.0, max(0.0, (self.recent.get(need, self.low) - self.low) / (self.high - self.low)))

    def observe(self, dialogues: Sequence[Dialogue]) -> None:
        """Take in a step's dialogues; those that could not be scored say nothing."""
        for need in HiddenNeed:
            finals = [d.emotion_final for d in dialogues if d.hidden_need == need.value and d.emotion_final is not None]
            if finals:
                mean = sum(finals) / len(finals)
                self.recent[need] = _MEMORY * self.recent.get(need, mean) + (1 - _MEMORY) * mean

    def row(self) -> dict[str, float]:
        """What the curves record of it, and all that `restore` needs; nothing for a run without a curriculum."""
        if self.kind != "adaptive":
            return {}
        return {f"recent_{need.value}": mean for need, mean in self.recent.items()} | {
            f"share_{self.difficulties[1]}": sum(self.share(need) for need in HiddenNeed) / len(HiddenNeed)
        }

    def restore(self, row: Mapping[str, float]) -> None:
        """Go on from the last recorded row."""
        self.recent = {need: row[f"recent_{need.value}"] for need in HiddenNeed if row.get(f"recent_{need.value}") is not None}
