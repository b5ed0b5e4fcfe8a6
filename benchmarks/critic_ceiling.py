"""What a critic could explain at best: `python -m benchmarks.critic_ceiling [--dialogues 2000]`, a few minutes on one core.

Dialogues of a supporter that stays as it is (as a policy does within one step of training) with the scripted user. Of every turn the return
is the final emotion / 100; with `train.dense` it is what is still to come. A boosted regression of scikit-learn predicts it from the true
state, cross-fitted over personas, so that nothing is explained by knowing a person. Printed is its explained variance by what it is told.
A critic of PPO reads the dialogue and is told none of it. Intervals resample personas, with the predictions as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from random import Random

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, cross_val_predict

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.protocols import now
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment, mixed
from rlver.components.users.scripted.simulator import ScriptedSimulator

RULES, USER = EmotionRules(), ScriptedSimulator("vanilla")
NEEDS = list(HiddenNeed)
SUPPORTERS = {"like the base (36% of turns follow the cues)": mixed(0.36), "half trained (60%)": mixed(0.6), "trained (85%)": mixed(0.85)}
PLANE = "turn, emotion, as a plane (train.critic_sees_emotion)"
TOLD: Mapping[str, slice] = {  # columns of a state
    PLANE: slice(0, 2),
    "turn": slice(0, 1),
    "turn, emotion": slice(0, 2),
    "what was seen: and cues, the last change, right acts so far": slice(0, 6),
    "the true state: and the hidden need": slice(0, 6 + len(NEEDS)),
}


def states(persona: Persona, supporter: Supporter, seed: int) -> Iterator[tuple[list[float], int]]:
    """(state, emotion before) of every turn, and at last ([], final emotion)."""
    random = Random(f"{seed}|{persona.persona_id}")
    session = USER.session(persona, seed)
    utterance = now(session.open())
    users, cues, moves, emotion, change, risen = [utterance.text], [utterance.cue is True], list[Move](), RULES.start, 0, 0
    need = [float(persona.hidden_need is one) for one in NEEDS]
    while not stop_reason(emotion, len(moves), False, RULES) or not moves:
        yield [len(moves), emotion, sum(cues), cues[-1], change, risen, *need], emotion
        moves.append(supporter(SupportMoment(persona, users, cues, moves), random))
        change = now(session.appraise(moves[-1].reply)).change
        risen += change > 0
        emotion = apply_change(emotion, change)
        if not stop_reason(emotion, len(moves), False, RULES):
            utterance = now(session.speak(emotion))
            users.append(utterance.text)
            cues.append(utterance.cue is True)
    yield [], emotion


def table(supporter: Supporter, personas: list[Persona], dialogues: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """States (N, F), emotion before each turn (N,), final emotion (N,), both in 0..1, and the persona's number (N,)."""
    rows, before, final, who = list[list[float]](), list[float](), list[float](), list[int]()
    for number in range(dialogues):
        *turns, (_, last) = states(personas[number % len(personas)], supporter, number)
        for state, emotion in turns:
            rows.append(state)
            before.append(emotion / 100)
            final.append(last / 100)
            who.append(number % len(personas))
    return np.array(rows), np.array(before), np.array(final), np.array(who)


def predicted(state: np.ndarray, returned: np.ndarray, who: np.ndarray, plane: bool) -> np.ndarray:
    """(N,) of each turn, its persona predicted by a regression that never saw it."""
    boosted = HistGradientBoostingRegressor(learning_rate=0.05, max_iter=150, min_samples_leaf=40, random_state=0)
    model = LinearRegression() if plane else boosted
    return np.asarray(cross_val_predict(model, state, returned, groups=who, cv=GroupKFold(5)))


def explained(returned: np.ndarray, expected: np.ndarray, who: np.ndarray, samples: int = 1000) -> tuple[float, float, float]:
    """1 - Var(return - prediction) / Var(return), and its 95% interval over personas drawn with replacement."""
    left = returned - expected
    counted = np.stack([np.ones_like(left), left, left**2, returned, returned**2], axis=1)
    sums_P5 = np.zeros((who.max() + 1, 5))
    np.add.at(sums_P5, who, counted)

    def share(sums: np.ndarray) -> np.ndarray:
        count, left_1, left_2, returned_1, returned_2 = np.moveaxis(sums, -1, 0)
        return np.asarray(1 - (left_2 / count - (left_1 / count) ** 2) / (returned_2 / count - (returned_1 / count) ** 2))

    people = np.flatnonzero(sums_P5[:, 0])
    drawn = people[np.random.default_rng(0).integers(len(people), size=(samples, len(people)))]
    low, high = np.quantile(share(sums_P5[drawn].sum(axis=1)), [0.025, 0.975])
    return float(share(sums_P5.sum(axis=0))), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=2000)
    dialogues: int = parser.parse_args().dialogues
    personas, _ = compose_personas(load_library(), 7, 200, 8)
    print("supporter | told | explains of the final emotion | of what is still to come | variance of that against the first")
    for name, supporter in SUPPORTERS.items():
        state, before, final, who = table(supporter, personas, dialogues)
        for told, columns in TOLD.items():
            shares = [
                explained(returned, predicted(state[:, columns], returned, who, told == PLANE), who) for returned in (final, final - before)
            ]
            share, dense = ("{:.2f} [{:.2f}, {:.2f}]".format(*one) for one in shares)
            print(f"{name} | {told} | {share} | {dense} | {np.var(final - before) / np.var(final):.2f}", flush=True)


if __name__ == "__main__":
    main()
