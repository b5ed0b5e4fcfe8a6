"""Log-probabilities of the policy's own tokens, and of nothing else.

In a dialogue about half of the tokens are the user's, and a batch is padded to its longest dialogue. Neither trains, so neither is
projected onto the vocabulary here, and columns that are padding in every row do not enter the model at all.

For policies whose earlier thoughts are not in their context any more, every turn of a dialogue is a row of its own (`turn_rows`).
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput

from rlver.components.policy.attention import attention_for_training
from rlver.components.policy.supervised import refuse_scaled_logits
from rlver.components.training.adapters import inner

LOGITS_AT_ONCE = 2**24  # logits in memory at a time; larger projections are made in pieces and made again in the backward pass


@dataclass
class TokenScores(ModelOutput):
    """Per token t of the sequence the scores of predicting it from what came before; 0 where it is not the policy's.

    log_probs (B, T), entropy (B, T, no gradient) and, of a model with a critic, state_values (B, T) before the token; all for tokens
    1..T of input_ids (B, T + 1).
    """

    log_probs: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    state_values: torch.Tensor | None = None


def add_token_scores(model: Any, temperature: float) -> None:
    """Let `model(input_ids, attention_mask, policy_mask=…)` return TokenScores; without policy_mask it is what it was.

    Raises ValueError for a model that does more to its logits than project them. The scores come out of the model's own forward, so that wrappers around it (DDP and the like) see an ordinary pass.
    """
    refuse_scaled_logits(model)
    before = model.forward

    @functools.wraps(type(model).forward)
    def forward(self: Any, *arguments: Any, policy_mask: torch.Tensor | None = None, **named: Any) -> Any:
        if policy_mask is None:
            return before(*arguments, **named)
        return _score(self, policy_mask=policy_mask, temperature=temperature, **named)

    model.forward = types.MethodType(forward, model)


def _score(model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, policy_mask: torch.Tensor, temperature: float) -> TokenScores:
    """input_ids, attention_mask and policy_mask (B, T + 1): 1 on real tokens and on the policy's tokens."""
    trunk_and_head = inner(model)
    real = attention_mask.any(dim=0).nonzero().flatten()
    used = slice(int(real[0]), int(real[-1]) + 1) if len(real) else slice(0, 2)
    with attention_for_training(trunk_and_head):
        hidden = trunk_and_head.base_model(
            input_ids=input_ids[:, used], attention_mask=attention_mask[:, used], use_cache=False
        ).last_hidden_state
    spoken = policy_mask[:, used][:, 1:].bool()
    wanted = input_ids[:, used][:, 1:][spoken]
    log_prob_N, entropy_N = _project(hidden[:, :-1][spoken], wanted, trunk_and_head.get_output_embeddings(), temperature)
    shape = (input_ids.shape[0], input_ids.shape[1] - 1)
    where = torch.zeros(shape, dtype=torch.bool, device=input_ids.device)
    where[:, used.start : used.stop - 1] = spoken

    def placed(value_N: torch.Tensor) -> torch.Tensor:
        return value_N.new_zeros(shape).masked_scatter(where, value_N)

    critic = getattr(model, "critic", None)
    values = None if critic is None else placed(critic(hidden, input_ids[:, used], attention_mask[:, used])[:, :-1][spoken])
    return TokenScores(log_probs=placed(log_prob_N), entropy=placed(entropy_N), state_values=values)


def _project(hidden_NH: torch.Tensor, wanted_N: torch.Tensor, head: Any, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability (N,) of each wanted token and the entropy (N,) of its distribution, in float32."""

    def piece(hidden: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_prob_NV = (head(hidden).float() / temperature).log_softmax(dim=-1)
        with torch.no_grad():
            entropy = -(log_prob_NV.exp() * log_prob_NV).sum(dim=-1)
        return log_prob_NV.gather(-1, wanted[:, None]).squeeze(-1), entropy

    size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    if len(wanted_N) <= size:
        return piece(hidden_NH, wanted_N)
    pieces = [
        checkpoint(piece, hidden_NH[first : first + size], wanted_N[first : first + size], use_reentrant=False)
        for first in range(0, len(wanted_N), size)
    ]
    return torch.cat([log_prob for log_prob, _ in pieces]), torch.cat([entropy for _, entropy in pieces])


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
