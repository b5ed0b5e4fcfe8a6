"""Stage `warmup`: a pretrained model is shown short dialogues before reinforcement learning, so that it says things a user can take up.

It stands alone so that the tables can tell what the raw model does, what being shown dialogues adds, and what reinforcement learning adds.
Collections are shown one after the other, each with a learning rate that rises and falls again (those of a list inside the list: all at once).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from rlver.components.domain.files import write_json
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.stage import give_back_memory, run_stage


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, required=True)
    arguments = parser.parse_args(argv)
    settings = load_settings(Path("params.yaml"), arguments.variant)
    import torch

    from rlver.components.labels.warmup import GOOD, Shown, collection, is_held_out
    from rlver.components.policy.load import load_policy, save_policy
    from rlver.components.policy.precision import autocast
    from rlver.components.policy.supervised import Example, WarmStarted, encode_dialogue, next_token_loss, train_upper_layers, warm_start

    parameters, thinking = settings.warmup, settings.policy.thinking
    if thinking:
        raise ValueError(f"variant {arguments.variant}: the warm-up dialogues have no thoughts: set policy.thinking: false")
    model, tokenizer = load_policy(arguments.base)
    train_upper_layers(model, parameters.trained_layers)

    def encoded(dialogues: Sequence[Shown]) -> list[Example]:
        """Those that teach something."""
        taught = [[mark == GOOD or not parameters.good_only for mark in one.marks] for one in dialogues]
        examples = [
            encode_dialogue(tokenizer, one.users, one.replies, thinking, 0.0, which) for one, which in zip(dialogues, taught, strict=True)
        ]
        return [example for example, which in zip(examples, taught, strict=True) if any(which)]

    collections = {name: collection(name) for names in parameters.dialogues for name in names}
    held = encoded([one for dialogues in collections.values() for one in dialogues if is_held_out(one)])
    lessons = {name: encoded([one for one in dialogues if not is_held_out(one)]) for name, dialogues in collections.items()}
    if parameters.at_most:
        lessons = {name: _drawn(lesson, parameters.at_most, settings.seed) for name, lesson in lessons.items()}
        held = _drawn(held, -(-parameters.at_most // 4), settings.seed)  # measured before and after, one by one
    shown = [(" and ".join(names), [example for name in names for example in lessons[name]]) for names in parameters.dialogues]
    if not held:
        raise ValueError(f"warmup.dialogues: {', '.join(collections)}: no dialogue is left to be held out: name a larger collection")

    def held_out_loss() -> float:
        with torch.no_grad(), autocast(settings.policy.precision):
            return sum(next_token_loss(model, [example]).item() for example in held) / len(held)

    def show(step: int, steps: int, loss: float) -> None:
        if step % 20 == 0 or step == steps:
            give_back_memory()
            print(f"warm-up: step {step}/{steps}, loss {loss:.3f}", flush=True)

    before, done = held_out_loss(), list[WarmStarted]()
    for name, lesson in shown:
        print(f"warm-up: {len(lesson)} dialogues of {name}", flush=True)
        numbers = (parameters.learning_rate, parameters.batch_tokens, 0.0, settings.seed)  # 0.0: no limit of seconds
        done.append(warm_start(model, [lesson] * parameters.rounds, *numbers, show, settings.policy.precision))
    after, count = held_out_loss(), sum(len(lesson) for _, lesson in shown)
    print(f"warm-up: {count} dialogues, loss on {len(held)} that were not shown {before:.3f} -> {after:.3f}", flush=True)
    save_policy(model, tokenizer, arguments.out, like=arguments.base)
    write_json(
        arguments.metrics,
        {
            "dialogues": count,
            "steps": sum(one.steps for one in done),
            "tokens": sum(one.tokens for one in done),
            "seconds": round(sum(one.seconds for one in done), 1),
            "held_out_loss_before": before,
            "held_out_loss_after": after,
        },
    )
    return 0


def _drawn(lesson: Sequence[Any], count: int, seed: int) -> list[Any]:
    """So many dialogues, or all where there are fewer."""
    order = list(lesson)
    Random(seed).shuffle(order)
    return order[:count]


if __name__ == "__main__":
    sys.exit(run_stage(main))
