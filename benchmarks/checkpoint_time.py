"""What a checkpoint takes, and what one written by a thread beside the training would still take: `python -m benchmarks.checkpoint_time`.

Models with the shapes of the default policy and of SmolLM2-135M, with random weights, take steps of a few tokens in transformers' trainer, which
saves after each. `copy` is what a thread would need first: weights and moments as they are now. Needs 7 GB of disk and of memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, Trainer, TrainingArguments

from rlver.components.training.adapters import CheckpointsWithoutMoments
from rlver.tasks.runtime.checkpoints import is_whole

SHAPES = {  # width, MLP, layers, heads, key-value heads, vocabulary
    "default policy": (128, 384, 4, 4, 4, 1_600),
    "SmolLM2-135M": (576, 1_536, 30, 9, 3, 49_152),
}
SAVES = 5


class TimedTrainer(Trainer):
    seconds: list[float]

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.seconds.append(timed(lambda: super(TimedTrainer, self)._save_checkpoint(model, trial)))


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def shaped(width: int, mlp: int, layers: int, heads: int, key_value: int, vocabulary: int) -> Any:
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=width, intermediate_size=mlp, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=key_value, vocab_size=vocabulary, tie_word_embeddings=True,
        )
    )  # fmt: skip


def measure(name: str, moments: bool, folder: Path) -> None:
    model = shaped(*SHAPES[name])
    row = {"input_ids": list(range(8)), "labels": list(range(8))}
    options = TrainingArguments(
        str(folder), max_steps=SAVES, save_steps=1, save_total_limit=2, use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=SAVES
    )
    trainer = TimedTrainer(model, options, train_dataset=[row] * 64, callbacks=[] if moments else [CheckpointsWithoutMoments()])
    trainer.remove_callback(PrinterCallback)
    trainer.seconds = []
    trainer.train()
    optimizer: Any = trainer.optimizer
    last = folder / f"checkpoint-{SAVES}"
    size = sum(file.stat().st_size for file in last.iterdir())
    held = [*model.state_dict().values(), *(value for of in optimizer.state.values() for value in of.values() if moments)]
    copy = median(timed(lambda: [tensor.clone() for tensor in held]) for _ in range(3))
    read = timed(lambda: is_whole(last, moments))
    saves = ", ".join(f"{one:.2f}" for one in trainer.seconds)
    print(
        f"{name:<15} {'with' if moments else 'without'} moments: {size / 1e6:,.0f} MB, saves {saves} s, copy {copy:.2f} s, check {read:.2f} s"
    )


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    print(f"{torch.get_num_threads()} threads")
    for name in SHAPES:
        for moments in (True, False):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                measure(name, moments, Path(folder))


if __name__ == "__main__":
    main()
