"""The tiny policy's body, a byte-level BPE tokenizer trained here and a small Qwen2 with random weights; and what it is warm-started on.

The tokenizer is trained with exactly the normalizer and pre-tokenizer that transformers will restore for `model_type: qwen2`;
any other choice would encode differently after a reload.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

from rlver.components.domain.emotion import EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator, now
from rlver.components.domain.thinking import CLOSE, OPEN
from rlver.components.policy.tiny.supporters import Move, Supporter, SupportMoment

END, SYSTEM, USER, ASSISTANT = "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """Byte-level BPE over `texts`, as a Qwen2Tokenizer with a chat template; at most `vocab_size` tokens, specials included."""
    blank = Qwen2Tokenizer(vocab={}, merges=[])
    backend = blank.backend_tokenizer
    trained = Tokenizer(models.BPE())
    trained.normalizer = backend.normalizer or normalizers.NFC()
    trained.pre_tokenizer = backend.pre_tokenizer
    trained.decoder = decoders.ByteLevel()
    specials = [END, SYSTEM, USER, ASSISTANT, OPEN, CLOSE]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    trained.train_from_iterator(texts, trainer)
    state = json.loads(trained.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=state["vocab"],
        merges=[tuple(merge) for merge in state["merges"]],  # type: ignore[misc]  # annotated as strings, needs pairs
        unk_token=END,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
    )
    tokenizer.add_tokens([OPEN, CLOSE])
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def new_model(tokenizer: Any, hidden_size: int, layers: int, heads: int, max_positions: int, seed: int) -> Qwen2ForCausalLM:
    """A Qwen2 with seeded random weights: one key-value head, tied embeddings, float32."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=1,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        initializer_range=0.06,  # the library's 0.02 is made for widths in the thousands and starts slowly here
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="float32",
    )
    return Qwen2ForCausalLM(config)


@dataclass(frozen=True)
class CorpusDialogue:
    """A dialogue to learn from: alternating user messages and supporter moves, spoken with or without thoughts."""

    persona_id: str
    thinking: bool
    users: tuple[str, ...]
    moves: tuple[Move, ...]
    emotion_final: int


def hold(persona: Persona, supporter: Supporter, simulator: Simulator, rules: EmotionRules, seed: int, thinking: bool) -> CorpusDialogue:
    """One dialogue between a scripted supporter and a scripted user, by the same rules as everywhere."""
    random = Random(f"{seed}|{persona.persona_id}")
    session = simulator.session(persona, seed)
    utterance = now(session.open())
    users, cues, moves = [utterance.text], [utterance.cue is True], list[Move]()
    emotion = rules.start
    while True:
        move = supporter(SupportMoment(persona, users, cues, moves), random)
        emotion = apply_change(emotion, now(session.appraise(move.reply)).change)
        moves.append(move)
        if stop_reason(emotion, len(moves), False, rules):
            return CorpusDialogue(persona.persona_id, thinking, tuple(users), tuple(moves), emotion)
        utterance = now(session.speak(emotion))
        users.append(utterance.text)
        cues.append(utterance.cue is True)


def corpus(
    personas: Sequence[Persona],
    supporter: Supporter,
    simulator: Simulator,
    rules: EmotionRules,
    dialogues: int,
    direct_share: float,
    seed: int,
) -> Iterator[CorpusDialogue]:
    """`dialogues` dialogues over all personas in turn; a `direct_share` of them without thoughts."""
    random = Random(seed)
    for number in range(dialogues):
        thinking = random.random() >= direct_share
        yield hold(personas[number % len(personas)], supporter, simulator, rules, seed * 1_000_003 + number, thinking)


def said(move: Move, thinking: bool) -> str:
    """A move as the policy would say it."""
    return f"{OPEN}{move.think}{CLOSE}{move.reply}" if thinking else move.reply
