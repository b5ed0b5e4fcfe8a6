"""Is what the hearing user makes of a reply the same to the byte? `python -m benchmarks.hearing_bytes [--replies 10000]`.

Two processes appraise the same labelled replies, the second in another order, each with one thread. The evidence of every appraisal is compared: what
was heard, its probability, its words and points, and the change. Each user has a need; there are as many of each as there are needs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from random import Random

import torch

from rlver.components.domain.persona import HiddenNeed
from rlver.components.domain.protocols import Exchange, now
from rlver.components.labels.labelled import labelled
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import DIFFICULTIES

SEED, EMOTION = 5, 40
NEEDS = list(HiddenNeed)


def appraised(replies: int, order: Sequence[int]) -> dict[str, str]:
    """What each reply is given, as JSON, by its number."""
    rows = Random(SEED).sample(labelled(), replies)
    found = {}
    for number in order:
        hearing = Hearing(Listener(NEEDS[number % len(NEEDS)]), DIFFICULTIES["vanilla"], reader())
        found[str(number)] = now(hearing.appraise([Exchange(rows[number].user, rows[number].reply)], EMOTION)).model_dump_json()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--shuffled", action="store_true", help="print what each is given, in another order (the second process)")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    order = list(range(asked.replies))
    if asked.shuffled:
        Random(SEED + 1).shuffle(order)
        print(json.dumps(appraised(asked.replies, order)))
        return
    began = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.hearing_bytes", "--replies", str(asked.replies), "--shuffled"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        here = appraised(asked.replies, order)
        seconds = time.monotonic() - began
        there = json.loads(other.communicate()[0])
    same = sum(here[number] == there[number] for number in here)
    print(f"{reader().version}: {same} of {len(here)} appraisals are the same to the byte; {len(set(here.values()))} are different ones")
    print(f"{asked.replies / seconds:.1f} appraisals a second in each process, one thread each")


if __name__ == "__main__":
    main()
