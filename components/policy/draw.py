"""Drawing the next token from its distribution with one uniform number, so that the same number always says the same."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

_MANY = 8192  # tokens of a vocabulary in which a token is searched by blocks
_BLOCK = 256


def draw(logits_BV: torch.Tensor, uniform_B: torch.Tensor, temperature: float, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token per row by inverting the distribution function at `uniform_B` in [0, 1).

    Returns token ids (B,) and their log-probabilities (B,) under the distribution that was drawn from: NaN where logits are not finite.
    """
    if temperature == 0:
        token_B = logits_BV.argmax(dim=-1)  # a NaN counts as the greatest
        best_B = logits_BV.gather(-1, token_B[:, None]).squeeze(-1).float()
        return token_B, best_B - best_B
    logprob_BV = (logits_BV.float() / temperature).log_softmax(dim=-1)
    if top_p < 1:
        sorted_logprob, order = logprob_BV.sort(dim=-1, descending=True)
        mass_before = sorted_logprob.exp().cumsum(dim=-1) - sorted_logprob.exp()
        dropped = torch.zeros_like(logprob_BV, dtype=torch.bool).scatter_(-1, order, mass_before >= top_p)
        logprob_BV = logprob_BV.masked_fill(dropped, float("-inf")).log_softmax(dim=-1)
    token_B = _inverted(logprob_BV.exp(), uniform_B.double()).clamp_max(logits_BV.shape[-1] - 1)
    return token_B, logprob_BV.gather(-1, token_B[:, None]).squeeze(-1)


def _inverted(mass_BV: torch.Tensor, uniform_B: torch.Tensor) -> torch.Tensor:
    """(B,) the first place at which the sum of the masses exceeds `uniform_B` of the whole sum.

    A large vocabulary is searched in two steps, the block and the place in it, so that only sums of blocks are added in float64.
    """
    rows, size = mass_BV.shape
    if size <= _MANY:
        return _first_above(mass_BV.double().cumsum(dim=-1), uniform_B)
    blocks = pad(mass_BV, (0, -size % _BLOCK)).view(rows, -1, _BLOCK)
    sums = blocks.sum(dim=-1).double().cumsum(dim=-1)
    block_B = _first_above(sums, uniform_B).clamp_max(sums.shape[-1] - 1)
    row_B = torch.arange(rows, device=mass_BV.device)
    within = blocks[row_B, block_B].double().cumsum(dim=-1)
    before_B = sums[row_B, block_B] - within[:, -1]
    left_B = ((uniform_B * sums[:, -1] - before_B) / within[:, -1]).clamp(0, 1)
    return block_B * _BLOCK + _first_above(within, left_B).clamp_max(_BLOCK - 1)


def _first_above(sums_BV: torch.Tensor, share_B: torch.Tensor) -> torch.Tensor:
    return torch.searchsorted(sums_BV, share_B[:, None] * sums_BV[:, -1:], right=True).squeeze(-1)
