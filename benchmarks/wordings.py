"""What the words of a user's cues give away, and how two speakers talk: `python -m benchmarks.wordings [--encoder]`.

A naive Bayes classifier over bags of words learns the eight needs from the cues that training users say and guesses them from those of test users;
chance is 12.5%. With --encoder the same is asked of a sentence encoder (nearest mean of a need), which reads meaning: a need must be possible to hear.
Then both speakers talk with the same personas, to whom the same supporter replies, and what they say is counted.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random

from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.protocols import Simulator, now
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.supporters import Move, SupportMoment, mixed
from rlver.components.users import scripted, shifts
from rlver.components.users.scripted.simulator import ScriptedAppraiser, ScriptedSimulator
from rlver.components.users.shifts.words import cues_of
from rlver.components.users.talking.speaker import TalkingSpeakers
from rlver.components.users.talking.wordings import cues
from rlver.components.users.together import Together

Cues = Mapping[HiddenNeed, Sequence[str]]
Guess = Callable[[str], HiddenNeed]
SMOOTHINGS = (0.1, 0.5, 1.0, 2.0)
PERSONAS, TURNS, SEED = 200, 10, 7
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


def words(text: str) -> list[str]:
    return _WORD.findall(text.replace("{role}", "").lower())


def talking_cues(split: str) -> Cues:
    return {need: cues(need, split) for need in HiddenNeed}


def naive_bayes(fit: Cues, smoothing: float) -> Guess:
    """Over bags of words, every need as likely as any other; words that were never fitted count for nothing."""
    counts = {need: Counter(word for cue in said for word in words(cue)) for need, said in fit.items()}
    vocabulary = frozenset[str]().union(*counts.values())

    def likelihood(need: HiddenNeed, text: str) -> float:
        total = counts[need].total() + smoothing * len(vocabulary)
        return sum(math.log((counts[need][word] + smoothing) / total) for word in words(text) if word in vocabulary)

    return lambda text: max(fit, key=lambda need: likelihood(need, text))


def nearest_meaning(fit: Cues) -> Guess:
    """By the mean of a need's cues in the hearing appraiser's encoder, whose weights must have been fetched."""
    from rlver.components.users.heard.meaning import meaning as encoder

    def meaning(text: str) -> list[float]:
        return [float(one) for one in encoder()(text.replace("{role}", "friend"))]

    means = {need: [sum(column) / len(said) for column in zip(*map(meaning, said), strict=True)] for need, said in fit.items()}

    def near(need: HiddenNeed, here: Sequence[float]) -> float:
        together: float = sum(one * other for one, other in zip(means[need], here, strict=True))
        return together / math.hypot(*means[need])

    def guess(text: str) -> HiddenNeed:
        here = meaning(text)
        return max(fit, key=lambda need: near(need, here))

    return guess


def guessed(guess: Guess, test: Cues) -> float:
    """The share of the cues whose need is guessed."""
    return sum(guess(cue) is need for need, said in test.items() for cue in said) / sum(map(len, test.values()))


def messages(simulator: Simulator, personas: Sequence[Persona]) -> list[str]:
    """What the users say after their first line in `TURNS` turns, whose emotion is held at 50 so that nobody leaves."""
    supporter, said = mixed(0.4), list[str]()
    for persona in personas:
        session, random = simulator.session(persona, SEED), Random(persona.persona_id)
        users, hints, moves = [now(session.open()).text], [False], list[Move]()
        for _ in range(TURNS - 1):
            moves.append(supporter(SupportMoment(persona, users, hints, moves), random))
            now(session.appraise(moves[-1].reply))
            utterance = now(session.speak(50))
            users.append(utterance.text)
            hints.append(utterance.cue is True)
        said += users[1:]
    return said


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wordings", description=__doc__)
    parser.add_argument("--encoder", action="store_true", help="ask a sentence encoder as well")
    with_encoder: bool = parser.parse_args().encoder
    own, other = cues_of(scripted.__name__), cues_of(shifts.__name__)
    talking = talking_cues("train")
    rows = {
        "scripted: train and test share their cues": (own, own),
        "scripted: fitted cues -> unseen-cues shift": (own, other),
        "talking: train wordings -> test wordings": (talking, talking_cues("test")),
    }
    print(f"need guessed from a cue, chance {1 / len(HiddenNeed):.1%}; naive Bayes with smoothing {', '.join(map(str, SMOOTHINGS))}")
    for name, (fit, test) in rows.items():
        shares = [f"{guessed(naive_bayes(fit, smoothing), test):.1%}" for smoothing in SMOOTHINGS]
        if with_encoder:
            shares.append(f"encoder {guessed(nearest_meaning(fit), test):.1%}")
        print(f"  {name:44} {sum(map(len, test.values())):4} cues  {'  '.join(shares)}")
    _, personas = compose_personas(load_library(), SEED, PERSONAS, PERSONAS)
    speakers: dict[str, Simulator] = {
        "scripted": ScriptedSimulator("vanilla"),
        "talking": Together(ScriptedAppraiser("vanilla"), TalkingSpeakers("vanilla"), 50),
    }
    print(f"messages of {PERSONAS} test personas in {TURNS} turns, the first line left out")
    for name, simulator in speakers.items():
        said = messages(simulator, personas)
        lengths = sorted(len(words(one)) for one in said)
        low, high = lengths[len(lengths) // 10], lengths[-len(lengths) // 10]
        distinct = len({word for one in said for word in words(one)})
        mean = sum(lengths) / len(lengths)
        print(f"  {name:9} {len(said)} messages, {mean:.1f} words on average, 80% in {low}..{high}, {distinct} distinct words")


if __name__ == "__main__":
    main()
