"""How many replies a second the user hears (`simulator.appraiser: heard`), on this machine's CPU and on its GPU, and whether they hear the same.

    python -m benchmarks.gpu_hearing [--replies 300]

Labelled replies, drawn by seed. What is heard lies on a grid of 1/50; a probability that another machine puts one mark beside is what
`rlver verify` takes (components/users/heard/rounding.py).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from random import Random

import torch

from rlver.components.labels.labelled import labelled
from rlver.components.users.heard.meaning import meaning
from rlver.components.users.heard.reading import GRID, Heard, Reader

SEED = 5


def numbers(heard: Heard) -> Iterator[float]:
    for named in (heard.acts, heard.quality, heard.signs):
        yield from named.values()
    yield from (heard.value, heard.helps)


def read(device: str, pairs: Sequence[tuple[str, str]], at_once: bool = False) -> tuple[list[Heard], float]:
    """What is heard, and replies a second, after ten that do not count."""
    meaning.cache_clear()  # it remembers texts of an earlier reader
    reader = Reader(device=device)
    for reply, user in pairs[:10]:
        reader.hear(reply, user, "another message")
    began = time.monotonic()
    if at_once:
        for reply, user in pairs:
            reader.soon(reply, user)
    found = [reader.hear(reply, user) for reply, user in pairs]
    return found, len(pairs) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=300, help="for the GPU; the CPU reads a tenth of them")
    asked = parser.parse_args()
    pairs = [(row.reply, row.user) for row in Random(SEED).sample(labelled(), asked.replies)]
    there: list[Heard] = []
    if torch.cuda.is_available():
        there, rate = read("cuda", pairs)
        print(f"{torch.cuda.get_device_name()}: {rate:.1f} replies/s", flush=True)
    few = pairs[: max(10, asked.replies // 10)]
    here, rate = read("cpu", few)
    print(f"CPU, one by one, each by one thread: {rate:.1f} replies/s")
    print(f"CPU, as many at once as torch has threads ({torch.get_num_threads()}): {read('cpu', few, at_once=True)[1]:.1f} replies/s")
    if there:
        apart = [abs(one - other) for pair in zip(here, there, strict=False) for one, other in zip(*map(numbers, pair), strict=True)]
        moved = sum(distance > 1e-6 for distance in apart)
        print(f"of {len(here)} replies {len(apart)} numbers: {moved} differ, by {max(apart) * GRID:.0f} marks of the grid at most")


if __name__ == "__main__":
    main()
