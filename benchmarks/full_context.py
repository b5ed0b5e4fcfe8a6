"""What a full context is worth to a policy that rambles where it loses: `python -m benchmarks.full_context [--personas 40] [--seeds 7 8 9]`,
a minute on one core.

A supporter like the base talks with the scripted user; with some chance a dialogue is one where it follows no cue and drowns every reply in
words, until the next reply would not fit into a small context. Printed is the mean reward twice: with such dialogues left out, as if they
were faults of the machine (masked), and with the emotion that they reached, as training has it (scored). Intervals resample the personas of
all seeds.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import ContextFull, UserSession, Utterance
from rlver.components.domain.thinking import Said
from rlver.components.domain.transcript import Appraisal, Dialogue, SimulatorTag, StopReason
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import Move, SupportMoment, mixed
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.users.scripted.simulator import ScriptedSimulator
from rlver.tasks.runtime.text_policy import TextPolicy, plain

RULES, USER = EmotionRules(), ScriptedSimulator("vanilla")
GROUP = 8
CONTEXT, ROOM = 520, 40  # words: what fits, and what a reply may need; ten turns of one who does not ramble fit
SPEAKS, LOSES = mixed(0.36), mixed(0.0)
DRIVEL = "Well, you know how it is, one thing leads to another and so it goes on and on, as they always say, time and again. " * 8


@dataclass(frozen=True)
class Noted:
    """The scripted user of one dialogue; `cues` takes down which of its messages hint at the need."""

    cues: list[bool]
    session_of: UserSession | None = None

    @property
    def tag(self) -> SimulatorTag:
        return USER.tag

    def session(self, persona: Persona, seed: int) -> Noted:
        return Noted(self.cues, USER.session(persona, seed))

    async def open(self) -> Utterance:
        assert self.session_of is not None
        return self._noted(await self.session_of.open())

    async def appraise(self, reply: str) -> Appraisal:
        assert self.session_of is not None
        return await self.session_of.appraise(reply)

    async def speak(self, emotion: int) -> Utterance:
        assert self.session_of is not None
        return self._noted(await self.session_of.speak(emotion))

    def _noted(self, said: Utterance) -> Utterance:
        self.cues.append(said.cue is True)
        return said


def rambler(people: Mapping[str, Persona], cues: Mapping[str, Sequence[bool]], share: float) -> TextPolicy:
    """Rambles in a `share` of its dialogues; `cues` has by dialogue which messages hint at the need so far."""

    def begin(dialogue_id: str, seed: int, language: str) -> Callable[[str], Said]:
        random, users, moves = Random(f"{dialogue_id}|{seed}"), list[str](), list[Move]()
        rambles = random.random() < share

        def answer(user: str) -> Said:
            users.append(user)
            words = sum(len(text.split()) for text in (*users, *(move.reply for move in moves)))
            if words + ROOM > CONTEXT:
                raise ContextFull(f"turn {len(users)}: the context holds {words} of {CONTEXT} words")
            moment = SupportMoment(people[dialogue_id], users, list(cues[dialogue_id]), moves)
            move = (LOSES if rambles else SPEAKS)(moment, random)
            said = f"{move.reply} {DRIVEL.strip()}" if rambles else move.reply
            moves.append(Move(move.act, move.think, said))
            return plain(said)

        return answer

    return TextPolicy("rambler", begin)


class Means(NamedTuple):
    """Mean reward (final emotion / 100), and the share of dialogues whose context was full."""

    full: float
    masked: float
    scored: float
    risen: float  # by masking


def sums(dialogues: Sequence[Dialogue]) -> np.ndarray:
    """(P, 4) of each persona: dialogues and their rewards, and the same of those whose context was full."""
    rows: dict[str, np.ndarray] = {}
    for one in dialogues:
        is_full, reward = one.stop_reason is StopReason.CONTEXT_FULL, (one.emotion_final or 0) / 100
        rows.setdefault(one.persona_id, np.zeros(4))[:] += (1, reward, is_full, is_full * reward)
    return np.stack(list(rows.values()))


def means(sums_P4: np.ndarray) -> Means:
    count, reward, full, reward_of_full = sums_P4.sum(axis=0)
    scored, masked = reward / count, (reward - reward_of_full) / (count - full)
    return Means(full / count, masked, scored, masked - scored)


def intervals(sums_P4: np.ndarray, samples: int = 2000) -> list[tuple[float, float]]:
    """95% of each of the `Means` over personas drawn with replacement."""
    drawn = np.random.default_rng(0).integers(len(sums_P4), size=(samples, len(sums_P4)))
    low, high = np.quantile([means(sums_P4[one]) for one in drawn], [0.025, 0.975], axis=0)
    return list(zip(map(float, low), map(float, high), strict=True))


def held(personas: Sequence[Persona], share: float, seed: int) -> list[Dialogue]:
    people = {f"{persona.persona_id}/{number}": persona for persona in personas for number in range(GROUP)}
    cues: dict[str, list[bool]] = {name: [] for name in people}
    jobs = [Job(name, persona, seed, Noted(cues[name])) for name, persona in people.items()]
    return [one.dialogue for one in asyncio.run(run_episodes(jobs, USER, rambler(people, cues, share), RULES, len(jobs)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--personas", type=int, default=40, help=f"of each seed; {GROUP} dialogues each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    given = parser.parse_args()
    people = {seed: compose_personas(load_library(), seed, given.personas, 8)[0] for seed in given.seeds}
    print(
        f"{given.personas} personas x {GROUP} dialogues for each of the seeds {' '.join(map(str, given.seeds))}; {CONTEXT} words of context"
    )
    print("dialogues that ramble | context full | mean reward, masked | scored | masked - scored")
    for share in (0.0, 0.05, 0.2, 0.5):
        found = np.concatenate([sums(held(personas, share, seed)) for seed, personas in people.items()])
        told = [f"{mean:.3f} [{low:.3f}, {high:.3f}]" for mean, (low, high) in zip(means(found), intervals(found), strict=True)]
        print(f"{share:.0%} | {' | '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
