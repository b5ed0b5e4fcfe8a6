"""One training run in several processes (torchrun): who this one is, and how what each of them holds comes together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")
# One process may wait as long for another's dialogues as an endpoint may take with all its retries. NCCL's own 10 minutes are fewer; the
# death of a process is noticed by torchrun, not by this.
PATIENCE = timedelta(hours=6)


def launched() -> bool:
    """Is this one of torchrun's processes?"""
    return bool(dist.is_torchelastic_launched())


def join() -> None:
    """Meet the other processes, if there are any. Call once, first of all."""
    if launched() and not dist.is_initialized():
        on_gpu = torch.cuda.is_available()
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
        if on_gpu:
            torch.cuda.set_device(dist.get_node_local_rank())


def rank() -> int:
    """0 for the process that writes results and shows progress."""
    return dist.get_rank() if dist.is_initialized() else 0


def count() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def share(items: Sequence[T]) -> list[T]:
    """This process's part of `items`, which all processes have."""
    return list(items[rank() :: count()])


def gathered(own: Sequence[T]) -> list[T]:
    """What all processes hold, in the order of their ranks. Every process must call it, and as often as the others."""
    if count() == 1:
        return list(own)
    parts: list[list[T]] = [[]] * count()
    dist.all_gather_object(parts, list(own))
    return [item for part in parts for item in part]
