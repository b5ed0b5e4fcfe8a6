"""The proof for a GPU at a toy size: every row is measured, and the limits beside them are the arithmetic of the docstring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, gpu_training
from benchmarks.pretrained_step import PROMPT, REPLY, USER
from rlver.components.training.token_scores import add_token_scores

MICRO = replace(
    gpu.SHAPES["toy"], hidden=16, layers=1, heads=2, key_value_heads=1, inner=32, dialogues=2, turns=1, matrix=64, copied_bytes=1 << 16
)


@pytest.mark.long
def test_every_row_is_measured_at_a_toy_size() -> None:
    rows = {what: found for what, found, _ in gpu.rows_of_table("micro", MICRO, "cpu")}
    assert list(rows) == [
        "matrix products, bfloat16",
        "copies of memory",
        "weights of the shape micro",
        "rollouts, transformers' generate",
        "rollouts, this project's sampler",
        "sampler against training pass",
        "training step with AdamW",
    ]
    assert float(rows["sampler against training pass"].split()[0]) < 0.05
    assert all(float(rows[name].split()[0]) > 0 for name in rows if "tokens/s" in rows[name])


def test_decoding_is_bounded_by_what_must_be_read() -> None:
    shape = gpu.SHAPES["1.5b"]
    found = gpu.Limits(flops=1.0, bytes_per_s=3e12)
    row = 2 * 28 * 2 * 128 * (PROMPT + 8 * (REPLY + USER) / 2) * 2  # keys and values of 28 layers, 2 heads of 128, 2 bytes each
    assert gpu.decode_limit(shape, 1_500_000_000, found) == pytest.approx(64 * 3e12 / (3e9 + 64 * row))


def test_the_gap_sees_a_sampler_with_other_weights() -> None:
    model = gpu.model_of(MICRO, "cpu").eval()
    other = gpu.model_of(MICRO, "cpu").eval()
    with torch.no_grad():
        other.model.embed_tokens.weight.mul_(30)  # logits far from flat
    add_token_scores(model, 0.8)
    assert gpu.logprob_gap(model, gpu.sampler_of(model, MICRO)) < 0.05 < gpu.logprob_gap(model, gpu.sampler_of(other, MICRO))


def test_without_trl_the_steps_are_named_as_not_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gpu_training, "NEEDS", ("trl", "a_library_that_is_not_there"))
    gpu_training.thirty_steps(Path("nowhere"), 30)
    assert capsys.readouterr().out == "\nGRPO steps: not run, a_library_that_is_not_there is not installed\n"
