"""One training run in several processes: who this one is, and how what each of them holds comes together.

What they exchange is JSON and tensors, never pickles: whoever forged a message could run nothing. That holds for what TRL gathers, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from pydantic import TypeAdapter

T = TypeVar("T")
# One process may wait as long for another's dialogues as an endpoint may take with all its retries. NCCL's own 10 minutes are fewer; the
# death of a process is noticed by its launcher, not by this.
PATIENCE = timedelta(hours=6)


def launched() -> bool:
    """Is this one of torchrun's processes, as on several machines?"""
    return bool(dist.is_torchelastic_launched())


def join(own_rank: int = 0, of: int = 1, meeting: Path | None = None) -> None:
    """Meet the other processes, if there are any. Call once, first of all.

    `of` processes of one machine, this one `own_rank`, find each other by the file `meeting`; it need not exist. Without it torchrun says
    where they are.
    """
    if dist.is_initialized() or not (meeting or launched()):
        return
    dist.all_gather_object = _all_gather_json  # type: ignore[assignment]  # PyTorch's own unpickles; TRL calls it, by accelerate, for its log
    on_gpu = torch.cuda.is_available()
    backend = "nccl" if on_gpu else "gloo"
    if meeting:
        store = dist.FileStore(str(meeting), of)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=own_rank, world_size=of, timeout=PATIENCE)
    else:
        dist.init_process_group(backend, timeout=PATIENCE)
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


def gathered(own: Sequence[T], form: TypeAdapter[list[T]]) -> list[T]:
    """What all processes hold, in the order of their ranks. Every process must call it, and as often as the others.

    `form` writes the items as JSON and reads them again.
    """
    if count() == 1:
        return list(own)
    return [item for part in _exchanged(form.dump_json(list(own))) for item in form.validate_json(part)]


def _all_gather_json(parts: list[Any], own: Any, group: None = None) -> None:
    """all_gather_object for what JSON can say, among all processes. Raises TypeError for anything else; tuples become lists."""
    parts[:] = [json.loads(part) for part in _exchanged(json.dumps(own).encode())]


def _exchanged(own: bytes) -> list[bytes]:
    """The bytes of each process, in the order of their ranks."""
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(count())]
    dist.all_gather(sizes, torch.tensor([len(own)], device=device))
    longest = max(int(size) for size in sizes)
    padded = torch.frombuffer(bytearray(own.ljust(longest, b"\0")), dtype=torch.uint8).to(device)
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return [part[: int(size)].cpu().numpy().tobytes() for part, size in zip(parts, sizes, strict=True)]
