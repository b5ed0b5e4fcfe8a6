"""How likely a reply is, word by word, to a language model that has read the message: half sense has words that nobody would go on with.

Small models mix the words of support without a thought between them. Each word of that may be usual; the next one after it is not.
"""

from __future__ import annotations

import torch
from tokenizers import Tokenizer

LIKELIHOODS = 10
_LEAST = 3  # tokens, the least likely ones
_MARKS, _ENDS = (".", "!", "?", "\u2026", "\n"), ("<|im_end|>", "<|endoftext|>")


def end_marks(tokenizer: Tokenizer) -> torch.Tensor:
    """(K,): the tokens that end a sentence or the text: they begin with a mark of _MARKS, or mean the end."""
    texts = {number: tokenizer.decode([number], skip_special_tokens=False) for number in range(tokenizer.get_vocab_size())}
    return torch.tensor([number for number, text in texts.items() if text in _ENDS or text.lstrip(" ").startswith(_MARKS)])


def token_likelihoods(logits_TV: torch.Tensor, ids_T: torch.Tensor) -> torch.Tensor:
    """(T, 2): the log-probability of each token, and how far it lies above what was to be expected there (the negative entropy), in nats."""
    each_TV = logits_TV.float().log_softmax(dim=-1)
    own_T = each_TV.gather(1, ids_T[:, None])[:, 0]
    return torch.stack([own_T, own_T - (each_TV.exp() * each_TV).sum(dim=1)], dim=1)


def likelihoods(found_T2: torch.Tensor) -> torch.Tensor:
    """(LIKELIHOODS,) of a reply's tokens, in their order; zeros where there are none."""
    if not len(found_T2):
        return torch.zeros(LIKELIHOODS)
    own_T, above_T = found_T2.unbind(dim=1)
    half = len(own_T) // 2
    return torch.stack(
        [
            own_T.mean(),
            own_T.sum(),
            torch.tensor(float(len(own_T))),
            own_T[-1],
            own_T[: max(1, half)].mean(),
            own_T[half:].mean(),
            own_T.sort().values[:_LEAST].mean(),
            above_T.mean(),
            above_T.min(),
            above_T.sort().values[:_LEAST].mean(),
        ]
    )
