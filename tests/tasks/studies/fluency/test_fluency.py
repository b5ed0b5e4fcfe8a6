"""Bits of replies under a model: against its own whole forward pass, and what is left out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import a_dialogue, scripted_dialogues
from micro import micro_model, micro_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.thinking import system_prompt
from rlver.components.domain.transcript import StopReason
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.load import save_policy
from rlver.components.scoring.units import Sampling, Units
from rlver.flows.cli import main
from rlver.tasks.studies.fluency.fluency import bits_of, bits_per_token, more_bits, reply_bits

HOW = Sampling(200, 1)


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return ChatFormat(micro_tokenizer(), "Be kind.")


def scaling(kind: str, tokens: int) -> Any:
    """A random model that does more to its logits than project them."""
    sizes = {"vocab_size": tokens, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    more = {"granite": {"logits_scaling": 8.0}, "gemma2": {"final_logit_softcapping": 3.0, "head_dim": 8}, "cohere": {"logit_scale": 0.1}}
    kept = {"num_key_value_heads": 2, "initializer_range": 0.6, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **kept, **more[kind])).eval()


@pytest.mark.parametrize("kind", ["qwen2", "granite", "gemma2", "cohere"])
def test_a_reply_has_the_bits_of_its_own_tokens_after_all_that_was_said(chat: ChatFormat, kind: str) -> None:
    model: Any = micro_model(scale=2.0)
    if kind != "qwen2":
        model = scaling(kind, model.config.vocab_size)
    dialogue = a_dialogue("d", [3, -4])
    found = reply_bits(model, chat, dialogue)
    before: list[int] = []
    for number, turn in enumerate(dialogue.turns):
        before += chat.user_turn(turn.user) if number else chat.start(turn.user)
        said = chat.tokenizer(turn.assistant, add_special_tokens=False)["input_ids"]
        logprobs = model(input_ids=torch.tensor([[*before, *said]])).logits[0].log_softmax(-1)
        bits = -sum(float(logprobs[len(before) - 1 + place, token]) for place, token in enumerate(said)) / math.log(2)
        assert found[number] == (pytest.approx(bits, rel=1e-4), len(said))
        before += [*said, chat.end_of_turn]


def test_an_empty_reply_has_none_and_a_dialogue_that_is_too_long_is_refused(chat: ChatFormat) -> None:
    model: Any = micro_model()
    dialogue = a_dialogue("d", [3, -4])
    silent = dialogue.model_copy(update={"turns": (dialogue.turns[0].model_copy(update={"assistant": ""}), dialogue.turns[1])})
    assert len(reply_bits(model, chat, silent)) == 1
    assert reply_bits(model, chat, silent.model_copy(update={"turns": silent.turns[:1]})) == [], "nothing was said"
    assert reply_bits(model, chat, dialogue.model_copy(update={"turns": ()})) == [], "it failed before its first reply"
    model.config.max_position_embeddings = 10
    with pytest.raises(ValueError, match="the model reads 10 at most"):
        reply_bits(model, chat, dialogue)


def test_a_dialogue_is_read_behind_the_system_message_of_its_language() -> None:
    model, tokenizer = micro_model(scale=2.0), micro_tokenizer()
    english = a_dialogue("d", [3])
    chinese = english.model_copy(update={"turns": (english.turns[0].model_copy(update={"user": "我很难过。"}),)})
    for language, dialogue in {"en": english, "zh": chinese}.items():
        chat = ChatFormat(tokenizer, system_prompt(True, language))
        assert bits_of(model, tokenizer, True, [dialogue]) == {"d": reply_bits(model, chat, dialogue)}


def test_replies_weigh_alike_whatever_their_length_and_are_compared_by_persona() -> None:
    base = {"a": [(20.0, 10)], "b": [(90.0, 30), (4.0, 4)], "c": [(1.0, 1)]}
    tuned = {"a": [(30.0, 10)], "b": [(120.0, 30), (8.0, 4)]}
    assert bits_per_token(base, HOW).value == pytest.approx((2 + 3 + 1 + 1) / 4)
    assert more_bits(tuned, base, HOW).value == pytest.approx((3 + 4 + 2) / 3 - (2 + 3 + 1) / 3)
    with pytest.raises(ValueError, match="same people are of 1 persona"):
        more_bits({"a": [(30.0, 10)], "b": []}, base, HOW)
    with pytest.raises(ValueError, match="same people are of 1 scenario"):
        more_bits(tuned, base, Sampling(200, 1, Units({"a": "s", "b": "s"})))


def test_the_command_compares_files_with_the_first(tmp_path: Path, repository_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dialogues = scripted_dialogues(6)
    shouted = [
        one.model_copy(update={"turns": tuple(turn.model_copy(update={"assistant": turn.assistant.upper()}) for turn in one.turns)})
        for one in dialogues
    ]
    failed = shouted[0].model_copy(update={"error": "the server went away", "emotion_final": None, "stop_reason": StopReason.FAILED})
    kept = {"base": dialogues, "tuned": shouted, "one": dialogues[:1], "with_failed": [*dialogues[1:], failed], "without": dialogues[1:]}
    for name, held in kept.items():
        write_jsonl(tmp_path / f"{name}.jsonl", [one.model_dump(mode="json") for one in held])
    save_policy(micro_model(), micro_tokenizer(), tmp_path / "model")
    files = [str(tmp_path / f"{name}.jsonl") for name in ("base", "tuned")]
    arguments = ["fluency", *files, "--model", str(tmp_path / "model"), "-o", str(tmp_path / "out.json")]
    assert main([*arguments, "--params", str(repository_root / "params.yaml")]) == 0
    base, tuned = json.loads((tmp_path / "out.json").read_text())["transcripts"].values()
    assert base["more_than_first"]["value"] == 0
    assert tuned["more_than_first"]["value"] == pytest.approx(tuned["bits_per_token"]["value"] - base["bits_per_token"]["value"], abs=1e-5)
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in ("bits_per_token", "repeated_runs", "stock_replies")) and files[1] in told
    both = [str(tmp_path / f"{name}.jsonl") for name in ("with_failed", "without")]
    assert main(["fluency", *both, *arguments[3:], "--params", str(repository_root / "params.yaml")]) == 0
    with_failed, without = json.loads((tmp_path / "out.json").read_text())["transcripts"].values()
    assert with_failed["bits_per_token"] == without["bits_per_token"], "nothing of a dialogue that failed counts"
    assert main(["fluency", str(tmp_path / "one.jsonl"), *arguments[3:], "--params", str(repository_root / "params.yaml")]) == 1
    assert "one.jsonl: its replies are of 1 persona: two are needed" in capsys.readouterr().err
