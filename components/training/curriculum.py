"""Which user a persona is during training (easy, harsh, or growing with the policy), and which personas are rolled out at which step.

The RLVER paper found that harsh users starve an early policy of reward (section 4.4). `staged` goes through the difficulties in equal
shares of the run; `adaptive` mixes two of them, need by need, so that the reward keeps its variance: the better the policy did lately
with users of a need, the more of them are of the second kind.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.transcript import Dialogue

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


def hold_out(personas: Sequence[Persona], count: int, seed: int) -> tuple[list[Persona], list[Persona]]:
    """(personas to learn from, `count` personas to watch), which share no scenario; the watched are never rolled out for an update.

    Whole scenarios are held out, as few as hold the watched with needs balanced; those of their personas that are too many are in
    neither list. A persona without a story is a scenario of its own. Raises ValueError where nobody is left to learn from.
    """
    random = Random(f"{seed}|hold out")
    drawn = _by_need(personas, random)
    wanted = Counter(persona.hidden_need for persona in drawn[:count])
    scenarios: dict[str, list[Persona]] = {}
    for persona in drawn:
        scenarios.setdefault(_scenario(persona), []).append(persona)
    held, watched = set[str](), set[str]()
    while wanted.total():
        name = max((one for one in scenarios if one not in held), key=lambda one: len(_wanted(scenarios[one], wanted)))
        found = _wanted(scenarios[name], wanted)
        held.add(name)
        watched |= {persona.persona_id for persona in found}
        wanted -= Counter(persona.hidden_need for persona in found)
    learning = [persona for persona in personas if _scenario(persona) not in held]
    if count > len(personas) or not learning:
        raise ValueError(
            f"train.evaluation_personas = {count} leaves nobody of {len(personas)} personas to train on: {len(held)} of {len(scenarios)} "
            "scenarios are held out whole; lower it, or take personas of more scenarios"
        )
    return learning, [persona for persona in personas if persona.persona_id in watched]


def _scenario(persona: Persona) -> str:
    return persona.story.scenario_id if persona.story else persona.persona_id


def _wanted(personas: Sequence[Persona], wanted: Counter[HiddenNeed]) -> list[Persona]:
    """Those of the personas that are wanted, no more of a need than that."""
    left, found = wanted.copy(), list[Persona]()
    for persona in personas:
        if left[persona.hidden_need] > 0:
            left[persona.hidden_need] -= 1
            found.append(persona)
    return found


def persona_order(personas: Sequence[Persona], steps: int, per_step: int, seed: int) -> list[str]:
    """`steps` × `per_step` persona ids; needs take turns, so that every step sees them as evenly as `per_step` allows, where all have as many
    personas: of unequal ones the frequent are left at the end of a round."""
    if len(personas) < per_step:
        raise ValueError(f"train.personas_per_step = {per_step}, but there are only {len(personas)} personas to train on")
    random = Random(f"{seed}|order")
    order: list[str] = []
    while len(order) < steps * per_step:
        order += [persona.persona_id for persona in _by_need(personas, random)]
    return order[: steps * per_step]


def following(
    order: Sequence[str], per_step: int, group_size: int, updates_per_batch: int
) -> Callable[[int], tuple[list[str], int] | None]:
    """Of a training step: the ids of the step whose dialogues come next, as the trainer asks for them, and its number; None after the last."""

    def after(step: int) -> tuple[list[str], int] | None:
        place = (step // updates_per_batch + 1) * per_step
        names = [name for name in order[place : place + per_step] for _ in range(group_size)]
        return (names, step + updates_per_batch) if names else None

    return after


def _by_need(personas: Sequence[Persona], random: Random) -> list[Persona]:
    """All personas once, in random order within each need, the needs taking turns."""
    queues: dict[HiddenNeed, deque[Persona]] = {need: deque() for need in HiddenNeed}
    for persona in random.sample(list(personas), len(personas)):
        queues[persona.hidden_need].append(persona)
    order: list[Persona] = []
    while any(queues.values()):
        order += [queue.popleft() for queue in queues.values() if queue]
    return order
