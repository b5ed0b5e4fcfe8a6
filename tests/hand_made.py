"""Dialogues with consistent arithmetic, and a model of one layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag, StopReason, Turn

SIMULATOR = SimulatorTag(kind="scripted", difficulty="vanilla", version="1")


def make_dialogue(
    persona: str,
    changes: Sequence[int],
    *,
    start: int = 40,
    need: str | None = "deep_empathy",
    cues: Sequence[bool | None] = (),
    evidence: Sequence[tuple[Evidence, ...]] = (),
    stop: StopReason | None = None,
    repeat: int = 0,
    tokens: int | None = 8,
) -> Dialogue:
    """A dialogue whose emotions follow from the changes; it stops by ceiling, floor or, otherwise, `stop` (turn limit)."""
    emotion, turns = start, []
    for number, change in enumerate(changes):
        emotion = max(0, min(100, emotion + change))
        reasons = evidence[number] if number < len(evidence) else ()
        appraisal = Appraisal(content="c", target="t", activity="a", feeling="f", change=change, evidence=reasons)
        cue = cues[number] if number < len(cues) else None
        turns.append(Turn(user="u", assistant="r", emotion=emotion, appraisal=appraisal, cue=cue, reply_tokens=tokens, think_tokens=3))
    reason = StopReason.EMOTION_CEILING if emotion >= 100 else StopReason.EMOTION_FLOOR if emotion < 10 else stop or StopReason.TURN_LIMIT
    return Dialogue(
        dialogue_id=f"{persona}/{repeat}",
        persona_id=persona,
        hidden_need=need,
        policy="p",
        seed=1,
        simulator=SIMULATOR,
        emotion_start=start,
        emotion_final=emotion,
        stop_reason=reason,
        turns=tuple(turns),
    )


def make_failed(persona: str, repeat: int = 0) -> Dialogue:
    """A dialogue that could not be finished: no final emotion."""
    return Dialogue(
        dialogue_id=f"{persona}/{repeat}",
        persona_id=persona,
        hidden_need="deep_empathy",
        policy="p",
        seed=1,
        simulator=SIMULATOR,
        emotion_start=40,
        stop_reason=StopReason.FAILED,
        error="context overflow",
        turns=(Turn(user="u", assistant="r"),),
    )


def save_tiny_model(folder: Path, seed: int) -> Path:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    vocabulary = {token: number for number, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
