"""The tiny policy's tokenizer and weights: the same before and after they are saved, the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from micro import SENTENCES

from rlver.components.policy.load import load_policy, save_policy
from rlver.components.policy.tiny.model import ASSISTANT, END, SYSTEM, USER, new_model, train_tokenizer

TEXTS = [
    *SENTENCES, "words it never saw: zyzzyva!", "don't  stop\n\nnow\t…", "最近有些事", "🙂", "", " leading and trailing ", "I'M SHOUTING 12345",
    "<think>why</think>because", "<|user|>hi<|end|>",
]  # fmt: skip


def encode(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def test_a_saved_policy_encodes_and_answers_as_before(tokenizer: Any, model: Any, tmp_path: Path) -> None:
    save_policy(model, tokenizer, tmp_path / "policy")
    model_again, tokenizer_again = load_policy(tmp_path / "policy")
    for text in TEXTS:
        assert encode(tokenizer_again, text) == encode(tokenizer, text), text
    assert tokenizer_again.chat_template == tokenizer.chat_template
    assert tokenizer_again.eos_token_id == tokenizer.eos_token_id
    ids = torch.tensor([encode(tokenizer, "Tell me more about it.")])
    with torch.no_grad():
        torch.testing.assert_close(model_again(ids).logits, model(ids).logits)
    assert next(model_again.parameters()).dtype is torch.float32
    assert {file.suffix for file in (tmp_path / "policy").iterdir()} <= {".json", ".safetensors", ".jinja"}


def test_every_text_survives_encoding(tokenizer: Any) -> None:
    for text in TEXTS:
        assert tokenizer.decode(encode(tokenizer, text)) == text


def test_the_special_tokens_are_one_token_each_and_the_size_is_kept(tokenizer: Any) -> None:
    for token in (END, SYSTEM, USER, ASSISTANT, "<think>", "</think>"):
        assert len(encode(tokenizer, token)) == 1
    assert len(tokenizer) <= 400
    assert len(train_tokenizer(SENTENCES * 3, vocab_size=300)) <= 300


def test_weights_depend_on_the_seed_alone(tokenizer: Any) -> None:
    def weights(seed: int) -> torch.Tensor:
        made = new_model(tokenizer, hidden_size=32, layers=1, heads=2, max_positions=64, seed=seed)
        return torch.cat([weight.flatten() for weight in made.parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_no_model_is_one_readable_line(tmp_path: Path, tokenizer: Any, model: Any) -> None:
    with pytest.raises(ValueError, match="cannot load a policy from") as missing:
        load_policy(tmp_path)
    save_policy(model, tokenizer, tmp_path / "policy")
    weights = tmp_path / "policy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match="cannot load a policy from") as broken:
        load_policy(tmp_path / "policy")
    assert "\n" not in str(missing.value) + str(broken.value)
