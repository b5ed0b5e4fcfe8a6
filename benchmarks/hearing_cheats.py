"""Looks for replies that the hearing user pays and that help nobody: `python -m benchmarks.hearing_cheats [--rounds 40] [--messages 16]`.

Two searches, both blind to what was said: one reply has to do for all messages, so it cannot be an answer to any. (1) The best of 64 general replies, and
of 64 that string two of them together. (2) A rewriter that starts from the best ones and changes, drops or adds a word or a sentence wherever that
pays on half of the messages. What both find is measured on the other half: users of all needs, a first message each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from benchmarks.ceilings import constant_replies
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, Exchange, now
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import reader
from rlver.components.users.scripted.appraiser import appraise, listener_of
from rlver.components.users.scripted.effects import DIFFICULTIES

SEED, GENERAL, KEPT = 3, 64, 4
Score = Callable[[str], float]


@dataclass(frozen=True)
class Asked:
    """A message, and who says it."""

    persona: Persona
    user: str

    def heard(self, reply: str) -> int:
        hearing = Hearing(listener_of(About(self.persona)), DIFFICULTIES["vanilla"], reader())
        return now(hearing.appraise([Exchange(self.user, reply)], 40)).change

    def scripted(self, reply: str) -> int:
        return appraise(listener_of(About(self.persona)), DIFFICULTIES["vanilla"], [], self.user, reply).change


def rewritten(reply: str, words: Sequence[str], sentences: Sequence[str], random: Random) -> str:
    """One change: a word put in, taken out or replaced, or a sentence added or taken away."""
    said = reply.split()
    place, kind = random.randrange(len(said)), random.random()
    if kind < 0.4:
        said[place] = random.choice(words)
    elif kind < 0.6 and len(said) > 3:
        del said[place]
    elif kind < 0.8:
        said.insert(place, random.choice(words))
    else:
        return f"{reply} {random.choice(sentences)}" if random.random() < 0.5 or ". " not in reply else reply.split(". ", 1)[1]
    return " ".join(said)


def climbed(start: str, score: Score, words: Sequence[str], sentences: Sequence[str], rounds: int, random: Random) -> tuple[str, float]:
    """The best reply that `rounds` of eight changes each lead to."""
    best, value = start, score(start)
    for _ in range(rounds):
        for candidate in dict.fromkeys(rewritten(best, words, sentences, random) for _ in range(8)):
            found = score(candidate)
            if found > value:
                best, value = candidate, found
    return best, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--messages", type=int, default=16, help="to search on; as many to measure on")
    asked = parser.parse_args()
    random = Random(SEED)
    people = compose_personas(load_library(), SEED, 8 * asked.messages, 8)[0]
    met = [Asked(one, one.first_line or "") for one in random.sample(people, 2 * asked.messages)]
    search, measure = met[: asked.messages], met[asked.messages :]

    def score(reply: str, by: Sequence[Asked] = search) -> float:
        for one in by:
            reader().soon(reply, one.user)  # several at a time
        return fmean([one.heard(reply) for one in by])

    singles = [one for one in constant_replies(SEED, 0) if len(one.split()) > 3]
    general = random.sample(singles, min(GENERAL, len(singles)))
    pairs = [" ".join(random.sample(singles, 2)) for _ in range(GENERAL)]
    words = sorted({word for message in met for word in message.user.split()} | {word for one in singles for word in one.split()})
    ranked = sorted(((score(one), one) for one in (*general, *pairs)), reverse=True)
    print(f"mean change of a first reply, {len(measure)} other messages\n{'heard':>7} {'scripted':>9}  reply")
    found = [("best of 128", one) for _, one in ranked[:KEPT]]
    found += [("rewritten", climbed(one, score, words, singles, asked.rounds, random)[0]) for _, one in ranked[:KEPT]]
    for name, reply in found:
        print(
            f"{score(reply, measure):7.1f} {fmean([one.scripted(reply) for one in measure]):9.1f}  {name}: {reply}",
            flush=True,
        )


if __name__ == "__main__":
    main()
