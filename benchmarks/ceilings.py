"""What can be earned from the scripted user without reading it, and with: `python -m benchmarks.ceilings [--difficulty challenging]`.

Three searches bound what a policy can reach that treats every user alike: one constant reply (all replies of a pool, then the best of
them again on every persona), one fixed sequence of acts (hill climbing in a table of the appraiser's own answers, in which every reply
is grounded and none repeats; then the best of them in real words), and one act all the time. Search is done on train personas; every
figure that is printed is the mean final emotion over test personas, which the search has not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from random import Random

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import HiddenNeed, Persona, PersonaClass
from rlver.components.domain.protocols import Exchange
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment, mixed, need_aware, perform, phrases, random_strategy
from rlver.components.users.scripted.appraiser import Listener, appraise
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.scripted.simulator import ScriptedSimulator

RULES = EmotionRules()
Acts = tuple[str, ...]  # what one reply does
MOVES: tuple[Acts, ...] = (
    *((act,) for act in (*SERVING, *GENERIC)),
    *(("acknowledge", act) for act in SERVING),
    *combinations(SERVING, 2),
)  # fmt: skip


def mean_final(supporter: Supporter, personas: Sequence[Persona], difficulty: str, seed: int = 0) -> float:
    """Mean final emotion of one dialogue with each persona."""
    simulator = ScriptedSimulator(difficulty)
    return sum(hold(persona, supporter, simulator, RULES, seed, False).emotion_final for persona in personas) / len(personas)


# --- one constant reply


def constant(reply: str) -> Supporter:
    """Says `reply` whatever happens."""
    return lambda moment, random: Move("constant", "", reply)


def constant_replies(seed: int, combined: int) -> list[str]:
    """Every phrase without slots as a reply of its own, `combined` replies of two to four of them, and a few bare interjections."""
    sentences = [sentence for act in (*SERVING, *GENERIC) for sentence in _bare(act)]
    random = Random(seed)
    return [
        *sentences,
        *(" ".join(random.sample(sentences, random.randint(2, 4))) for _ in range(combined)),
        "Go on.", "Keep going.", "What else?", "I understand.", "Oh no.", "Yes.", "You're right.", "Okay, I see.",
    ]  # fmt: skip


def best_constants(replies: Sequence[str], personas: Sequence[Persona], difficulty: str, keep: int) -> list[str]:
    """The `keep` replies that do best on `personas`."""
    return sorted(replies, key=lambda reply: -mean_final(constant(reply), personas, difficulty))[:keep]


def _bare(act: str) -> list[str]:
    """The sentences of the phrase book that do `act` and need no filling in."""
    texts = phrases()["openings"] if act == "acknowledge" else phrases()[act]["heads"]
    return [text.rstrip(".") + ("?" if act == "ask_fact" else ".") for text in texts if "{" not in text]


# --- one fixed sequence of acts


def sequence(moves: Sequence[Acts]) -> Supporter:
    """Performs `moves` in order, the same for every user, always in words that are new in the dialogue and pick up its own."""

    def supporter(moment: SupportMoment, random: Random) -> Move:
        acts = moves[min(len(moment.moves), len(moves) - 1)]
        return Move("+".join(acts), "", " ".join(perform(act, moment, random, opening=False).reply for act in acts))

    return supporter


@cache
def _examples(act: str) -> tuple[str, str]:
    """Two sentences that do `act` and nothing else: one to have been said before, one to say now."""
    pure = [text for text in _bare(act) if [found for sentence in read_reply(text).sentences for found, _ in sentence.acts] == [act]]
    return pure[0], pure[1]


@cache
def _change(need: HiddenNeed, persona_class: PersonaClass, difficulty: str, acts: Acts, done: frozenset[str]) -> int:
    """What the appraiser gives for a fresh, grounded reply that does `acts` after `done`."""
    reply = " ".join(_examples(act)[1] for act in acts)
    user = " ".join(reversed(reply.strip(".?").split()))  # the same words without an echo
    earlier = [Exchange("", _examples(act)[0]) for act in sorted(done)]
    return appraise(Listener(need, persona_class), DIFFICULTIES[difficulty], earlier, user, reply).change


def expected(moves: Sequence[Acts], difficulty: str) -> float:
    """Mean final emotion of a fixed sequence over all needs and classes, by the appraiser's own arithmetic."""
    users = list(product(HiddenNeed, PersonaClass))
    return sum(_final(need, persona_class, difficulty, moves) for need, persona_class in users) / len(users)


def _final(need: HiddenNeed, persona_class: PersonaClass, difficulty: str, moves: Sequence[Acts]) -> int:
    emotion, done = RULES.start, frozenset[str]()
    for turn, acts in enumerate(moves, start=1):
        emotion = apply_change(emotion, _change(need, persona_class, difficulty, acts, done))
        done |= frozenset(acts)
        if stop_reason(emotion, turn, False, RULES):
            break
    return emotion


def best_sequences(difficulty: str, restarts: int, seed: int, keep: int) -> list[tuple[Acts, ...]]:
    """The `keep` best of `restarts` climbs, each from random moves or from one or two acts all the time after some politeness."""
    found: dict[tuple[Acts, ...], float] = {}
    for start in _starts(Random(seed), restarts):
        climbed = _climb(start, lambda moves: expected(moves, difficulty))
        found[climbed] = expected(climbed, difficulty)
    return sorted(found, key=lambda moves: -found[moves])[:keep]


def _starts(random: Random, count: int) -> Iterator[tuple[Acts, ...]]:
    polite: tuple[Acts, ...] = tuple((act,) for act in GENERIC)
    for number in range(count):
        first, second = random.sample(list(SERVING), 2)
        plans = (
            [(first,)] * RULES.max_turns,
            [*polite, *[(first,)] * 6],
            [(first,)] * 5 + [(second,)] * 5,
            random.choices(MOVES, k=RULES.max_turns),
        )
        yield tuple(plans[number % len(plans)])


def _climb(moves: tuple[Acts, ...], value: Callable[[tuple[Acts, ...]], float]) -> tuple[Acts, ...]:
    """Replace one move at a time by the best one until no replacement helps."""
    best, improved = value(moves), True
    while improved:
        improved = False
        for place in range(len(moves)):
            for move in MOVES:
                changed = (*moves[:place], move, *moves[place + 1 :])
                if (now := value(changed)) > best:
                    moves, best, improved = changed, now, True
    return moves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--difficulty", choices=DIFFICULTIES, default="vanilla")
    parser.add_argument("--restarts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    train, test = compose_personas(load_library(), options.seed, 96, 104)

    def show(name: str, supporter: Supporter, note: str = "") -> None:
        print(f"{name:34}{mean_final(supporter, test, options.difficulty):6.1f}  {note}", flush=True)

    print(f"mean final emotion, {options.difficulty}, {len(test)} test personas, start {RULES.start}")
    show("told the need", need_aware)
    show("reads the cues, every turn", mixed(1.0))
    show("reads the cues in 22% of turns", mixed(0.22))
    show("any act, uniformly", random_strategy)
    replies = constant_replies(options.seed, combined=300)
    finals = {r: mean_final(constant(r), train, options.difficulty) for r in best_constants(replies, train[:48], options.difficulty, 5)}
    best = max(finals, key=lambda reply: finals[reply])
    show(f"best of {len(replies)} constant replies", constant(best), best)
    single = max(SERVING, key=lambda act: mean_final(sequence([(act,)]), train[:48], options.difficulty))
    show("best single act, fresh words", sequence([(single,)]), single)
    for moves in best_sequences(options.difficulty, options.restarts, options.seed, 3):
        show("fixed sequence of acts", sequence(moves), " > ".join("+".join(acts) for acts in moves))


if __name__ == "__main__":
    main()
