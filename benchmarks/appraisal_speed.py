"""Appraisals per second on one core: `python -m benchmarks.appraisal_speed`.

No reply and no sentence is measured twice: every sentence carries a word that no other has, and all caches are emptied first, so what
is timed is reading, not remembering; an earlier reply of the same dialogue was read when it was said, as in life. The baseline, in the same run on the same texts, is one pass of `re.findall` over everything that
an appraisal has to look at (the reply, the user's message and all earlier ones).
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Exchange
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import mixed
from rlver.components.users.scripted import reading
from rlver.components.users.scripted.appraiser import Listener, appraise
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.simulator import ScriptedSimulator

NATURAL = Path(__file__).parents[1] / "tests" / "components" / "users" / "scripted" / "natural_replies.yaml"
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


class Job(NamedTuple):
    listener: Listener
    earlier: tuple[Exchange, ...]
    user: str
    reply: str


def jobs(personas: Sequence[Persona], natural: Sequence[str] | None, sentences: int, seed: int) -> list[Job]:
    """Every turn of one dialogue per persona; replies of the tiny world, or `sentences` natural ones at a time."""
    random, made = Random(seed), list[Job]()
    for persona in personas:
        held = hold(persona, mixed(0.5), ScriptedSimulator("vanilla"), EmotionRules(floor=-1, ceiling=1000), seed, False)
        listener, earlier = Listener(persona.hidden_need, persona.persona_class, persona.traits), list[Exchange]()
        for user, move in zip(held.users, held.moves, strict=True):
            reply = _unseen(" ".join(random.sample(natural, sentences)) if natural else move.reply, random)
            made.append(Job(listener, tuple(earlier), user, reply))
            earlier.append(Exchange(user, reply))
    return made


def _unseen(text: str, random: Random) -> str:
    """`text` with a word in every sentence that no other sentence has."""
    return re.sub(r"([.!?]+)(?=\s|$)", lambda end: f" {''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=10))}{end[1]}", text)


def appraisals_per_second(work: Sequence[Job]) -> float:
    """Processor time counts, so a busy machine matters less."""
    for cached in (reading.read_reply, reading._read_sentence, reading.bigrams, reading.content_of):
        cached.cache_clear()
    start = time.process_time()
    for job in work:
        appraise(job.listener, DIFFICULTIES["vanilla"], job.earlier, job.user, job.reply)
    return len(work) / (time.process_time() - start)


def tokenisations_per_second(work: Sequence[Job]) -> float:
    start = time.process_time()
    for job in work:
        for text in (job.reply, job.user, *(text for one in job.earlier for text in (one.user, one.reply))):
            _WORD.findall(text.lower())
    return len(work) / (time.process_time() - start)


def main() -> None:
    personas, _ = compose_personas(load_library(), 7, 300, 8)
    table: dict[str, list[dict[str, Any]]] = YAML(typ="safe").load(NATURAL.read_text(encoding="utf-8"))
    natural = [row["reply"] for rows in table.values() for row in rows]
    print(f"{'replies':34}{'words':>6}{'appraisals/s':>14}{'of bare tokenisation':>22}")
    for name, pool, sentences in (("of the tiny world", None, 0), ("natural", natural, 1), ("natural, three in one", natural, 3)):
        work = jobs(personas, pool, sentences, seed=1)
        words = sum(len(job.reply.split()) for job in work) / len(work)
        speed, baseline = appraisals_per_second(work), tokenisations_per_second(work)
        print(f"{name:34}{words:6.0f}{speed:14,.0f}{speed / baseline:21.2f}x")


if __name__ == "__main__":
    main()
