"""Our dialogues as the rollouts of TRL's asynchronous GRPO (`trl.experimental.async_grpo`): dialogues are held while earlier ones are learned from.

Every turn is a sample of its own, with its own advantage; TRL's packing forwards what turns share once. A thought that has left the context is in its
own turn's sample alone. A dialogue that failed makes no sample. TRL averages over the tokens of a forward pass, so a long dialogue weighs more than in
our own trainer, and `rows_per_forward` decides how much.
"""

from __future__ import annotations

import json
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from rlver.components.domain.files import BadFile, write_json
from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.episode import Rollout, check_failed
from rlver.components.training.adapters import CheckpointsWithoutMoments, WholeCheckpoints
from rlver.components.training.advantages import turn_advantages
from rlver.components.training.dialogue_trainer import counted_cut_off, paid_before
from rlver.components.training.section import UpdateParameters

Hold = Callable[[Sequence[str], int], Sequence[Rollout]]
BATCH = "batch_of_personas.json"  # in a checkpoint: from which batch on dialogues are held


@dataclass(frozen=True)
class Credit:
    """How dialogues are paid; consecutive `group_size` dialogues have the same persona and user."""

    score: Callable[[Rollout], float | None]  # in 0..1; None: unscorable
    group_size: int
    format_gate: bool = False
    cut_off_penalty: float = 0.0


def samples_of(rollouts: Sequence[Rollout], credit: Credit, version: int, first_group: int = 0) -> Iterator[RolloutSample]:
    """A sample for each turn that says something: that has an advantage other than 0."""
    scored = [(credit.score(one), len(counted_cut_off(one, credit.format_gate))) for one in rollouts]
    reward_D = torch.tensor([math.nan if reward is None else reward - credit.cut_off_penalty * cut for reward, cut in scored])
    before_DK = paid_before(rollouts, credit.format_gate, credit.cut_off_penalty)
    advantage_DK = turn_advantages(reward_D, before_DK, credit.group_size, "none")
    for number, (one, (reward, _), advantage_K) in enumerate(zip(rollouts, scored, advantage_DK.tolist(), strict=True)):
        if reward is None or one.dialogue.error is not None:
            continue
        told = {"rewards/emotion": reward}  # once a dialogue
        for turn, advantage in zip(range(len(one.dialogue.turns)), advantage_K, strict=False):
            if advantage and math.isfinite(advantage):
                yield _sample(one, turn, advantage, version, first_group + number // credit.group_size, told)
                told = {}


def _sample(rollout: Rollout, turn: int, advantage: float, version: int, group: int, metrics: dict[str, float]) -> RolloutSample:
    """All that the policy had read when it spoke in this turn, and what it said."""
    tokens, context = rollout.seen(turn), len(rollout.prompt_ids)
    return RolloutSample(
        prompt=[{"role": "user", "content": rollout.dialogue.turns[turn].user}],
        completion=[{"role": "assistant", "content": rollout.dialogue.turns[turn].assistant}],
        input_ids=np.array([*rollout.prompt_ids, *(token for token, _, _ in tokens)], dtype=np.int64),
        completion_mask=np.array([0] * context + [int(trains) for _, trains, _ in tokens], dtype=np.int64),
        old_log_probs=np.array([0.0] * context + [logprob if trains else 0.0 for _, trains, logprob in tokens], dtype=np.float32),
        advantage=advantage,
        model_version=version,
        group_id=group,
        metrics=metrics,
    )


@dataclass
class WeightsInProcess:
    """TRL's weight transfer into the model that dialogues are sampled with, in this process. Dialogues that are under way are waited for."""

    model: Any
    under_way: threading.Lock = field(default_factory=threading.Lock)  # held while dialogues are

    def pause(self) -> None:
        self.under_way.acquire()

    @torch.no_grad()
    def send_weights(self, iterator: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Raises KeyError for a weight that the model does not have. `pause` comes first.

        After an error TRL does not call `resume`, and whoever holds dialogues would wait for ever: so the lock is released here.
        """
        try:
            own = dict(self.model.named_parameters(remove_duplicate=False))
            for name, weight in iterator:
                own[name].copy_(weight)
        except BaseException:
            self.under_way.release()
            raise

    def resume(self) -> None:
        self.under_way.release()

    def init_weight_transfer(self) -> None:
        """Nothing is to be set up, or taken down."""

    destroy = init_weight_transfer


class DialogueWorker:
    """TRL's `RolloutWorkerProtocol`: holds dialogues in a thread of its own, as fast as the trainer takes them.

    `hold(persona_ids, number)` gives a dialogue for each id, in order, with the weights as they are then; `batches` are the ids of each call, every
    persona `credit.group_size` times in a row. At most `ahead` samples wait. `first_batch`: a training that goes on leaves out those before it.
    Of `judged` dialogues, the last ones, at most the share `max_failure_rate` may have failed: a batch alone is too small to be judged.
    """

    def __init__(
        self,
        hold: Hold,
        batches: Iterable[Sequence[str]],
        credit: Credit,
        weights: WeightsInProcess,
        ahead: int,
        max_failure_rate: float,
        judged: int,
    ) -> None:
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue(maxsize=ahead)
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()  # nothing is measured here
        self._hold, self._batches, self._credit, self._weights, self._max_failure_rate = hold, batches, credit, weights, max_failure_rate
        self._last: deque[Dialogue] = deque(maxlen=judged)
        self.first_batch = 0
        self._batch_of_group: dict[int, int] = {}
        self._version, self._stopping = 0, threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dialogues")
        self._work: Future[None] | None = None

    def start(self) -> None:
        self._work = self._thread.submit(self._hold_all)

    def stop(self) -> None:
        """Waits for the dialogues that are under way."""
        self._stopping.set()
        self._thread.shutdown(wait=True)

    def update_model_version(self, model_version: int) -> None:
        self._version = model_version

    def batch_after(self, groups: Iterable[int]) -> int:
        """The batch of the last of these groups that were learned from: of its dialogues some may still wait."""
        return max((self._batch_of_group[group] for group in groups), default=self.first_batch)

    def check_health(self, stale_after_s: float) -> None:
        """Raises what ended the thread, or RuntimeError when all dialogues were held and the trainer wants more. Slow dialogues are not an error."""
        if self._work is not None and self._work.done():
            self._work.result()
            raise RuntimeError("all dialogues were held, and none is left to learn from: give more batches of personas, or fewer steps")

    def _hold_all(self) -> None:
        group = 0
        for number, persona_ids in enumerate(islice(self._batches, self.first_batch, None), self.first_batch):
            with self._weights.under_way:
                if self._stopping.is_set():
                    return
                version, rollouts = self._version, self._hold(persona_ids, number)
            self._judge([rollout.dialogue for rollout in rollouts])
            for sample in samples_of(rollouts, self._credit, version, group):
                self._batch_of_group[sample.group_id] = number
                self._put(sample)
            group += len(rollouts) // self._credit.group_size

    def _judge(self, dialogues: Sequence[Dialogue]) -> None:
        """Raises TooManyFailures, from the moment that so many have failed as may of all that are judged."""
        self._last.extend(dialogues)
        if sum(dialogue.error is not None for dialogue in self._last) > self._max_failure_rate * (self._last.maxlen or 0):
            check_failed(list(self._last), self._max_failure_rate)

    def _put(self, sample: RolloutSample) -> None:
        while not self._stopping.is_set():
            with suppress(queue.Full):
                return self.rollout_buffer.put(sample, timeout=0.5)  # s, until it is looked whether the training has ended


class AsyncDialogueTrainer(WholeCheckpoints, AsyncGRPOTrainer):
    """TRL's trainer, whose dialogues end with the training, however that ends.

    It goes on from a checkpoint with weights, optimiser and the batch of personas that was learned from last. Dialogues that waited then are held anew.
    """

    def train(self, resume_from_checkpoint: str | bool | None = None, trial: Any = None, ignore_keys_for_eval: Any = None) -> Any:
        """Raises BadFile for a checkpoint without its batch, ValueError for one that does not hold just what is trained."""
        worker: Any = self.rollout_worker
        if resume_from_checkpoint:
            worker.first_batch = _batch_of(Path(str(resume_from_checkpoint)) / BATCH)
        try:
            return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
        finally:
            worker.stop()

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        worker: Any = self.rollout_worker
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        write_json(folder / BATCH, {"batch": worker.batch_after(self._trained_groups)})  # before what makes the checkpoint count as whole
        super()._save_checkpoint(model, trial)  # type: ignore[no-untyped-call]


def _batch_of(file: Path) -> int:
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["batch"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadFile(f"{file} is damaged ({error}); delete its folder to go on from an earlier checkpoint") from error


def async_trainer(
    base: Path,
    tokenizer: Any,
    persona_ids_in_order: Sequence[str],
    update: UpdateParameters,
    folder: Path,
    score: Callable[[Rollout], float | None],
    rollouts: Hold,
    weights: WeightsInProcess,
    max_failure_rate: float,
    callbacks: Sequence[Any],
) -> AsyncDialogueTrainer:
    """A trainer of the model in `base`, ready for `train()`, which leaves the trained one in `.model`; `weights` go to the one that speaks.

    A step learns from personas_per_step x group_size turns: how many dialogues they are, the dialogues decide. So about a step's worth is held at
    once (of more, TRL would drop the last as too old, always those of the same needs). The personas go round.
    """
    train, on_gpu = update.train, torch.cuda.is_available()
    config = AsyncGRPOConfig(
        output_dir=str(folder),
        max_steps=train.steps,
        token_budget=0,  # rows are counted, not tokens: it would ask a vLLM server for its longest context
        per_device_train_batch_size=train.rows_per_forward,
        gradient_accumulation_steps=train.personas_per_step * train.group_size // train.rows_per_forward,
        num_generations=train.group_size,
        use_cpu=not on_gpu,
        bf16=on_gpu,
        gradient_checkpointing=train.gradient_checkpointing,
        **train.update_arguments(),
        temperature=update.policy.temperature,
        save_strategy="steps",
        save_steps=train.save_every,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        seed=update.seed,
    )
    credit = Credit(score, train.group_size, update.gates_format, update.reward.cut_off_penalty)
    step = train.personas_per_step * train.group_size
    turns = min(train.max_turns or update.max_turns, update.max_turns)
    batches = _round_and_round(persona_ids_in_order, max(1, train.personas_per_step // turns), train.group_size)
    worker: Any = DialogueWorker(rollouts, batches, credit, weights, 2 * step, max_failure_rate, judged=step)
    nothing = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": "-"}]}]
    )  # it wants a data set, and the worker brings the dialogues
    trainer = AsyncDialogueTrainer(
        str(base),
        args=config,
        train_dataset=nothing,
        processing_class=tokenizer,
        rollout_worker=worker,
        weight_transfer=weights,
    )
    trainer.remove_callback(PrinterCallback)  # our own watch shows what matters
    if not train.checkpoint_optimizer:
        trainer.add_callback(CheckpointsWithoutMoments())
    for one in callbacks:  # after TRL's own: a check is to hear the weights of its step, which one of those sends
        trainer.add_callback(one)
    return trainer


def _round_and_round(order: Sequence[str], per_step: int, group_size: int) -> Iterator[list[str]]:
    while True:
        for place in range(0, len(order), per_step):
            yield [name for name in order[place : place + per_step] for _ in range(group_size)]
