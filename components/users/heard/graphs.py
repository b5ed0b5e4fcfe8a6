"""A forward pass on a GPU that is recorded once and played again. Forty small layers take longer to be started one by one than to be computed.

Recorded is one pass for each of a few lengths, when this is made: nothing else may use the GPU meanwhile. A text is padded at its end up to the next length. What is
read of a text must not look at what comes after it, as in causal attention, so the padding changes nothing but the shapes of the products. The same
text always takes the same length, so it is always read with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

STEP = 32  # tokens from one length to the next
_BEFORE = 3  # passes that are not recorded: libraries choose how to multiply in the first ones

Pass = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class _Recorded:
    ids_1T: torch.Tensor
    graph: torch.cuda.CUDAGraph
    found: tuple[torch.Tensor, ...]


class Graphs:
    """Calling it does `run` with ids (1, T) on the GPU, T at most `longest`. The tensors that it returns are overwritten by the next call."""

    @torch.inference_mode()
    def __init__(self, run: Pass, longest: int) -> None:
        self._recorded = {length: _record(run, length) for length in range(STEP, padded(longest) + 1, STEP)}

    def __call__(self, ids: Sequence[int]) -> tuple[torch.Tensor, ...]:
        """What `run` returns of the ids, padded."""
        one = self._recorded[padded(len(ids))]
        one.ids_1T.copy_(torch.tensor([[*ids, *[0] * (padded(len(ids)) - len(ids))]]))
        one.graph.replay()
        return one.found


def padded(length: int) -> int:
    """The next length for which a pass is recorded."""
    return -(-length // STEP) * STEP


def _record(run: Pass, length: int) -> _Recorded:
    ids_1T = torch.zeros(1, length, dtype=torch.long, device="cuda")
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(_BEFORE):
            run(ids_1T)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        found = run(ids_1T)
    return _Recorded(ids_1T, graph, found)
