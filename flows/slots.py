"""The GPU slot: stages that compute on a GPU take turns, across all flow runs of a Prefect server.

The limit is made here before it is used: Prefect lets everybody through a limit that nobody made. On a machine without a GPU there is no
limit, since stages share the cores (`rlver run --jobs`).
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

import httpx
from prefect import get_client
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency

from rlver.tasks.runtime import environment
from rlver.tasks.runtime.processes import Stop

GPU_SLOT = "rlver-gpu"
ASK_EVERY_S = 2.0
GPU_STAGES = frozenset({"base", "warmup", "train", "converse", "benchmark"})  # and their kinds: converse-raw, benchmark_base


def prepare_slots(server: str | None) -> int:
    """Make the limit on the server at this address, as wide as there are GPUs; returns how many there are to take turns on.

    None without a server that stays up: the one that a single run starts for itself has nobody else to wait for, and would keep the slot
    of a run that was killed.
    """
    gpus = environment.gpus() if server else 0
    if gpus:
        with get_client(sync_client=True) as client:
            client.upsert_global_concurrency_limit_by_name(GPU_SLOT, gpus)
    return gpus


@contextlib.contextmanager
def gpu_slot(group: str, gpus: int, stop: Stop | None = None) -> Iterator[None]:
    """A slot while a stage of this group (`train`) runs; waits for one to come free, or until `stop` is asked. Raises if the limit was taken
    away meanwhile."""
    with contextlib.ExitStack() as held:
        waits = bool(gpus) and re.split("[-_]", group)[0] in GPU_STAGES
        while waits:
            (stop or Stop()).raise_if_asked()
            try:  # once: Prefect's own waiting looks at nothing else
                held.enter_context(concurrency(GPU_SLOT, strict=True, max_retries=0, raise_on_lease_renewal_failure=False))
                waits = False
            except ConcurrencySlotAcquisitionError as error:
                if not _is_taken(error):
                    raise
                time.sleep(ASK_EVERY_S)
        yield


def _is_taken(error: ConcurrencySlotAcquisitionError) -> bool:
    """Whether the server has the limit, and no slot of it free."""
    return isinstance(error.__cause__, httpx.HTTPStatusError) and error.__cause__.response.status_code == httpx.codes.LOCKED
