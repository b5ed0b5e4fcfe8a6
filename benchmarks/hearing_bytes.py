"""Is what the hearing user makes of a reply the same to the byte? `python -m benchmarks.hearing_bytes [--replies 10000]`.

Two processes appraise the same labelled replies: one of them one by one, with one thread, the other in another order, 64 at a time, with as many threads
as there are cores. The evidence of every appraisal is compared: what was heard, its probability, its words and points, and the change. Each user has a
need; there are as many of each as there are needs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from random import Random

import torch

from rlver.components.domain.persona import HiddenNeed
from rlver.components.domain.protocols import Exchange
from rlver.components.labels.labelled import labelled
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import DIFFICULTIES

SEED, EMOTION = 5, 40
AT_ONCE = 64
NEEDS = list(HiddenNeed)


def appraised(replies: int, order: Sequence[int], at_once: int) -> dict[str, str]:
    """What each reply is given, as JSON, by its number."""
    rows = Random(SEED).sample(labelled(), replies)

    async def one(number: int) -> tuple[str, str]:
        hearing = Hearing(Listener(NEEDS[number % len(NEEDS)]), DIFFICULTIES["vanilla"], reader())
        appraisal = await hearing.appraise([Exchange(rows[number].user, rows[number].reply)], EMOTION)
        return str(number), appraisal.model_dump_json()

    async def some(numbers: Sequence[int]) -> list[tuple[str, str]]:
        return await asyncio.gather(*map(one, numbers))

    return dict(found for begin in range(0, replies, at_once) for found in asyncio.run(some(order[begin : begin + at_once])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--shuffled", action="store_true", help="print what each is given, in another order (the second process)")
    asked = parser.parse_args()
    order = list(range(asked.replies))
    if asked.shuffled:
        Random(SEED + 1).shuffle(order)
        print(json.dumps(appraised(asked.replies, order, AT_ONCE)))
        return
    torch.set_num_threads(1)
    began = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.hearing_bytes", "--replies", str(asked.replies), "--shuffled"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        here = appraised(asked.replies, order, 1)
        seconds = time.monotonic() - began
        there = json.loads(other.communicate()[0])
    same = sum(here[number] == there[number] for number in here)
    print(f"{reader().version}: {same} of {len(here)} appraisals are the same to the byte; {len(set(here.values()))} are different ones")
    print(f"{asked.replies / seconds:.1f} appraisals a second one by one, with one thread, the other process beside it")


if __name__ == "__main__":
    main()
