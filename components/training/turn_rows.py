"""Every turn of a dialogue as a row of its own, for policies whose earlier thoughts are not in their context any more."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True)
class TurnRows:
    """input_ids, attention_mask and policy_mask (N, S), right-padded; `place` (N, S) says where in the flattened dialogues a token is."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    policy_mask: torch.Tensor
    place: torch.Tensor

    def put_back(self, score_NS: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Scores of tokens 1..S-1 of the rows, (N, S - 1), as scores (B, T) of the dialogues' tokens 0..T-1, given `shape` (B, T)."""
        spoken = self.policy_mask[:, 1:].bool()
        flat = score_NS.new_zeros(shape.numel()).index_put((self.place[:, 1:][spoken],), score_NS[spoken])
        return flat.view(shape)


def turn_rows(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, policy_mask: torch.Tensor, turn: torch.Tensor, stays: torch.Tensor
) -> TurnRows:
    """All arguments (B, T): a row for every turn the policy speaks in, made of that turn and of what stays of those before.

    A dialogue without a policy token keeps a row, so that every process has something to differentiate.
    """
    width = input_ids.shape[1]
    places, owns = [], []
    for row in range(len(input_ids)):
        real, spoken = attention_mask[row].bool(), policy_mask[row].bool()
        for number in sorted(set(turn[row][spoken].tolist())) or [0]:
            of_turn = real & ((turn[row] == number) | ((turn[row] < number) & stays[row].bool()))
            place = of_turn.nonzero().flatten()
            places.append(place + row * width)
            owns.append((spoken & (turn[row] == number))[place])
    place = pad_sequence(places, batch_first=True)
    lengths = torch.tensor([len(one) for one in places], device=place.device)
    return TurnRows(
        input_ids=input_ids.flatten()[place],
        attention_mask=(torch.arange(place.shape[1], device=place.device)[None] < lengths[:, None]).to(attention_mask.dtype),
        policy_mask=pad_sequence(owns, batch_first=True).to(policy_mask.dtype),
        place=place,
    )
