"""The GPU slot: stages that compute on a GPU take turns, across all flow runs of a Prefect server.

The limit is made here before it is used: Prefect lets everybody through a limit that nobody made. On a machine without a GPU there is no
limit, since stages share the cores (`rlver run --jobs`).
"""

from __future__ import annotations

import contextlib

from prefect import get_client
from prefect.concurrency.sync import concurrency

from tasks import environment

GPU_SLOT = "rlver-gpu"
GPU_STAGES = frozenset({"base", "train", "converse", "benchmark"})


def prepare_slots() -> int:
    """Make the limit, as wide as there are GPUs; returns how many there are."""
    gpus = environment.gpus()
    if gpus:
        with get_client(sync_client=True) as client:
            client.upsert_global_concurrency_limit_by_name(GPU_SLOT, gpus)
    return gpus


def gpu_slot(group: str, gpus: int) -> contextlib.AbstractContextManager[None]:
    """A slot while a stage of this group (`train`) runs; waits for one to come free. Raises if the limit was taken away meanwhile."""
    return (
        concurrency(GPU_SLOT, strict=True, raise_on_lease_renewal_failure=False)
        if gpus and group in GPU_STAGES
        else contextlib.nullcontext()
    )
