"""What sampler and trainer differ by, and what its correction is worth: `python -m benchmarks.mismatch [--model models/base]`.

For each seed a batch of dialogues of the base with the scripted user, once in float32 and once in bfloat16 (`policy.precision: native`,
where the processor multiplies it). Printed are the gap of the log-probabilities of what was said, the share of tokens whose ratio is beyond
`train.ratio_cap`, and the gradient of the batch as training takes it: with the probabilities that were sampled with as the old ones
(corrected), and with the trainer's own (not). Both are compared with a reference on the same dialogues: the model in float32, every token
weighed by its whole ratio, nothing clipped. KL is left out. Intervals are Student's over batches.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch
from scipy.stats import t

from rlver.components.domain.emotion import emotion_reward
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.load import load_policy
from rlver.components.policy.precision import autocast, computes_in_bfloat16
from rlver.components.rollout.episode import Job, Rollout, run_episodes
from rlver.components.settings.settings import Settings, load_settings
from rlver.components.training.build import build_trainer
from rlver.components.training.dialogue_trainer import DialogueTrainer
from rlver.components.training.section import UpdateParameters
from rlver.tasks.runtime.assembly import conversation

ROOT = Path(__file__).resolve().parents[1]
PRECISIONS = ("float32", "native")
NO_BOUND = 1e9


class Batch(NamedTuple):
    """What one batch shows; of the two gradients the cosine with that of the reference, and their norm over its norm."""

    gap: float  # nats a token, mean
    beyond: float  # share of tokens
    cosine: float
    norm: float
    cosine_uncorrected: float
    norm_uncorrected: float


class _Taken(Exception):
    """The batch was taken; nothing is to be learned from it."""


@dataclass
class Taken:
    """A trainer before its first step, and the batch that it was about to learn from."""

    trainer: DialogueTrainer
    batch: dict[str, Any]

    def gradient(self, old: torch.Tensor | None, precision: str) -> torch.Tensor:
        """(P,) with `old` (B, T) as the old log-probabilities; None: the trainer's own. Raises RuntimeError where nothing is learned."""
        trainer, model = self.trainer, self.trainer.model
        trainer.accelerator.autocast = lambda *_, **__: autocast(precision)
        model.zero_grad()
        if old is None:
            with torch.no_grad():
                trainer._compute_loss(model, {**self.batch, "old_per_token_logps": self.sampled.clone()})
            old = trainer.log_probs
        loss: Any = trainer._compute_loss(model, {**self.batch, "old_per_token_logps": old.clone()})
        loss.backward()
        gradient = torch.cat([weight.grad.flatten().double() for weight in model.parameters() if weight.grad is not None])
        if not gradient.norm() > 0:
            raise RuntimeError("nothing is learned from this batch: every dialogue of a group went alike; take another seed")
        return gradient

    @contextlib.contextmanager
    def unbounded(self) -> Iterator[None]:
        """No ratio is clipped or capped inside."""
        trainer: Any = self.trainer  # its args are GRPO's
        kept = trainer.epsilon_low, trainer.epsilon_high, trainer.args.delta
        trainer.epsilon_low, trainer.epsilon_high, trainer.args.delta = NO_BOUND, NO_BOUND, None
        try:
            yield
        finally:
            trainer.epsilon_low, trainer.epsilon_high, trainer.args.delta = kept

    @property
    def sampled(self) -> torch.Tensor:
        """(B, T) log-probabilities that were sampled with, 0 where nothing is learned."""
        return torch.as_tensor(self.batch["sampling_per_token_logps"] * self.learns)

    @property
    def learns(self) -> torch.Tensor:
        return torch.as_tensor(self.batch["completion_mask"] * self.batch["tool_mask"])


def gap_and_beyond(trainer: torch.Tensor, sampled: torch.Tensor, learns: torch.Tensor, cap: float) -> tuple[float, float]:
    """Of log-probabilities (B, T): mean distance in nats of the tokens that learn, and the share of them whose ratio is above `cap`."""
    apart = (trainer - sampled)[learns.bool()]
    return float(apart.abs().mean()), float((apart.exp() > cap).float().mean())


def against(gradient: torch.Tensor, reference: torch.Tensor) -> tuple[float, float]:
    """Cosine of two vectors (P,), and the norm of the first over that of the second."""
    cosine = gradient @ reference / (gradient.norm() * reference.norm())
    return float(cosine), float(gradient.norm() / reference.norm())


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, and its 95% interval by Student's t; without one (NaN) for a single value."""
    mean = fmean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return mean, mean - half, mean + half


def taken(settings: Settings, folder: Path, model_path: Path, personas: int) -> Taken:
    """A batch of `settings.seed`: `personas` groups, sampled by the model in `settings.policy.precision`."""
    model, tokenizer = load_policy(model_path)
    everybody, _ = compose_personas(load_library(), settings.seed, 2 * personas, 8)
    people = {one.persona_id: one for one in everybody[:personas]}
    talk = conversation(settings, "mismatch", model, tokenizer, settings.rollout.concurrency)

    def rollouts(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        jobs = [Job(f"{settings.seed}/{number}", people[name], settings.seed) for number, name in enumerate(persona_ids)]
        talk.policy.start()
        return asyncio.run(run_episodes(jobs, talk.simulator, talk.policy, talk.rules, len(jobs)))

    def score(rollout: Rollout) -> float | None:
        return emotion_reward(rollout.dialogue, rollout.well_formed, settings.reward.gates_format(settings.policy.thinking))

    trainer = build_trainer(model, tokenizer, list(people), parameters_of(settings, personas), folder, score, rollouts, [])
    batch: dict[str, Any] = {}

    def take(_: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        batch.update(inputs)
        raise _Taken

    learn = trainer._compute_loss
    trainer._compute_loss = take  # type: ignore[method-assign, assignment]
    with contextlib.suppress(_Taken), contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    trainer._compute_loss = learn  # type: ignore[method-assign]
    return Taken(trainer, batch)


def parameters_of(settings: Settings, personas: int) -> UpdateParameters:
    """One step, one forward pass for all rows, no KL; the model is built in float32 and computes in what `gradient` is told."""
    numbers = {
        "steps": 1,
        "beta": 0.0,
        "personas_per_step": personas,
        "rows_per_forward": personas * settings.train.group_size,
        "save_every": 10**6,
    }
    policy = settings.policy.model_copy(update={"precision": "float32"})
    return UpdateParameters(settings.train.model_copy(update=numbers), settings.reward, policy, settings.simulator.max_turns, settings.seed)


def measured(one: Taken, precision: str, cap: float) -> Batch:
    with one.unbounded():
        reference = one.gradient(one.sampled, "float32")
    corrected = one.gradient(one.sampled, precision)
    gap, beyond = gap_and_beyond(one.trainer.log_probs, one.sampled, one.learns, cap)
    return Batch(gap, beyond, *against(corrected, reference), *against(one.gradient(None, precision), reference))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/base"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--personas", type=int, default=8, help="of a batch; each holds train.group_size dialogues")
    given = parser.parse_args()
    settings = load_settings(ROOT / "params.yaml", "grpo-think")
    print(
        f"{given.personas} x {settings.train.group_size} dialogues a batch, seeds {' '.join(map(str, given.seeds))}; against float32, unclipped"
    )
    print(f"precision | {' | '.join(Batch._fields)}")
    for precision in PRECISIONS:
        if precision == "native" and not computes_in_bfloat16(precision):
            print("native | this machine computes it in float32")
            continue
        rows = []
        for seed in given.seeds:
            policy = settings.policy.model_copy(update={"precision": precision})
            with tempfile.TemporaryDirectory() as folder:
                one = taken(settings.model_copy(update={"seed": seed, "policy": policy}), Path(folder), given.model, given.personas)
                rows.append(measured(one, precision, settings.train.ratio_cap))
        told = ["{:.5f} [{:.5f}, {:.5f}]".format(*interval(values)) for values in zip(*rows, strict=True)]
        print(f"{precision} | {' | '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
