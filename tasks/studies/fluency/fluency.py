"""How surprising replies are to a language model that was not trained on the reward, in bits a token.

A policy that is rewarded for what an appraiser hears can drift into fluent nonsense or keywords; the model it came from then finds its replies
unlikely. Each reply is read where it was said, after the dialogue so far, at temperature 1. Thoughts are left out, and so is the token that ends a
reply, since replies that were cut off have none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

from rlver.components.domain.thinking import system_prompt
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.chat import ChatFormat
from rlver.components.scoring.statistics import Estimated, Interval, by_cluster
from rlver.components.scoring.turns import pooled_differences
from rlver.components.scoring.units import Sampling
from rlver.tasks.studies.judge.judging import language_of

_BITS, _CHANGES = Interval(0.0, math.inf), Interval(-math.inf, math.inf)


@torch.inference_mode()
def reply_bits(model: Any, chat: ChatFormat, dialogue: Dialogue) -> list[tuple[float, int]]:
    """(bits, tokens) of each reply, in order; empty replies are left out.

    Raises ValueError for a dialogue that is longer than the model reads.
    """
    ids: list[int] = []
    places: list[range] = []
    for number, turn in enumerate(dialogue.turns):
        ids += chat.user_turn(turn.user) if number else chat.start(turn.user, language_of(dialogue))
        said = chat.tokenizer(turn.assistant, add_special_tokens=False)["input_ids"]
        places.append(range(len(ids), len(ids) + len(said)))
        ids += [*said, chat.end_of_turn]
    if not ids:  # a dialogue that failed before its first reply
        return []
    most = getattr(model.config, "max_position_embeddings", None)
    if most is not None and len(ids) > most:
        raise ValueError(f"dialogue {dialogue.dialogue_id} has {len(ids)} tokens, the model reads {most} at most; name another model")
    spoken = [place for place in places if place]
    if not spoken:
        return []
    before = torch.tensor([number - 1 for place in spoken for number in place], device=model.device)
    logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False, logits_to_keep=before).logits[0]
    bits = []
    for place, of_reply in zip(spoken, logits.split([len(place) for place in spoken]), strict=True):
        logprobs = of_reply.float().log_softmax(dim=-1)
        wanted = torch.tensor(ids[place.start : place.stop], device=model.device)
        bits.append((-float(logprobs.gather(-1, wanted[:, None]).double().sum()) / math.log(2), len(place)))
    return bits


Bits = Mapping[str, Sequence[tuple[float, int]]]  # by persona: those of its replies


def bits_of(model: Any, tokenizer: Any, thinking: bool, dialogues: Iterable[Dialogue]) -> dict[str, list[tuple[float, int]]]:
    """Those of all dialogues, by persona; behind the system message that a thinking or direct policy gets in the language of the user."""
    chat = ChatFormat(tokenizer, system_prompt(thinking), {"zh": system_prompt(thinking, "zh")})
    return by_cluster((dialogue.persona_id, of_reply) for dialogue in dialogues for of_reply in reply_bits(model, chat, dialogue))


def bits_per_token(bits: Bits, how: Sampling) -> Estimated:
    """Mean over replies. Raises ValueError where nothing was said."""
    return how.mean(_means(bits), _BITS)


def more_bits(bits: Bits, base: Bits, how: Sampling) -> Estimated:
    """How many more than the replies of `base` to the same personas have. Raises ValueError where they share fewer than two units."""
    shared = {name for name in bits.keys() & base.keys() if bits[name] and base[name]}
    check_units(shared, how, "replies to the same people")
    mine, theirs = ({name: values for name, values in _means(all_of).items() if name in shared} for all_of in (bits, base))
    return how.paired_mean(pooled_differences(mine, theirs), _CHANGES)


def check_units(personas: Collection[str], how: Sampling, what: str) -> None:
    """Raises ValueError for fewer than two: their interval would have no end."""
    if (count := how.units.count(personas)) < 2:
        raise ValueError(f"{what} are of {count} {how.units.name(personas)}: two are needed, one says nothing about the spread")


def _means(bits: Bits) -> dict[str, list[float]]:
    return {name: [total / tokens for total, tokens in of] for name, of in bits.items()}
