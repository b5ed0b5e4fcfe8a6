"""From the numbers of an update to a trainer that is ready to go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from rlver.components.domain.kinds import AlgorithmKind
from rlver.components.domain.registry import ALGORITHMS
from rlver.components.policy.precision import computes_in_bfloat16
from rlver.components.policy.supervised import train_upper_layers
from rlver.components.rollout.episode import Rollout
from rlver.components.training import processes
from rlver.components.training.adapters import CheckpointsWithoutMoments, lora
from rlver.components.training.dialogue_trainer import DialogueTrainer, Rollouts
from rlver.components.training.section import TrainSettings, UpdateParameters


def build_trainer(
    model: Any,
    tokenizer: Any,
    persona_ids_in_order: Sequence[str],
    parameters: UpdateParameters,
    checkpoints: Path,
    score: Callable[[Rollout], float | None],
    rollouts: Rollouts,
    callbacks: Sequence[Any],
) -> DialogueTrainer:
    """A trainer ready for `train(resume_from_checkpoint=…)`.

    `persona_ids_in_order` holds steps × personas_per_step ids: the order is ours, so that needs are stratified and a resume exact.
    """
    train = parameters.train
    forwards = _forwards_per_update(train, processes.count())
    if len(persona_ids_in_order) != train.steps * train.personas_per_step:
        raise ValueError(f"expected {train.steps} x {train.personas_per_step} persona ids, got {len(persona_ids_in_order)}")
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(lambda record: "All reward functions returned None" not in record.getMessage())
    algorithm: AlgorithmKind = ALGORITHMS.load(train.algorithm)
    train_upper_layers(model, train.trained_layers)
    trainer_class = algorithm.trainer()
    trainer: DialogueTrainer = trainer_class(
        update=parameters,
        end_of_turn=tokenizer.eos_token_id,
        score=score,
        rollouts=rollouts,
        model=model,
        processing_class=tokenizer,
        args=_trl_config(parameters, trainer_class.configuration, checkpoints, forwards),
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": name}], "persona_id": name} for name in persona_ids_in_order]
        ),
        callbacks=[*callbacks, *([] if train.checkpoint_optimizer else [CheckpointsWithoutMoments()])],
        peft_config=lora(train.lora_rank),
    )
    trainer.remove_callback(PrinterCallback)  # our own watch shows what matters
    return trainer


def _forwards_per_update(train: TrainSettings, at_work: int) -> int:
    """Forward passes of each of `at_work` processes for the rows of one update."""
    rows, at_once = train.personas_per_step * train.group_size, train.rows_per_forward * at_work
    if rows % at_once:
        raise ValueError(f"personas_per_step x group_size = {rows} must be divisible by train.rows_per_forward x processes = {at_once}")
    return rows // at_once


def _trl_config(parameters: UpdateParameters, kind: type[GRPOConfig], checkpoints: Path, forwards: int) -> GRPOConfig:
    """Our numbers under TRL's names; one optimiser step takes `forwards` forward passes."""
    train, on_gpu = parameters.train, torch.cuda.is_available()
    config = kind(
        output_dir=str(checkpoints),
        use_cpu=not on_gpu,
        bf16=on_gpu or any(map(computes_in_bfloat16, (parameters.policy.precision, train.frozen_precision))),
        gradient_checkpointing=train.gradient_checkpointing,
        per_device_train_batch_size=train.rows_per_forward,
        gradient_accumulation_steps=forwards,
        steps_per_generation=forwards,
        num_generations=train.group_size,
        num_iterations=train.updates_per_batch,
        max_steps=train.steps * train.updates_per_batch,
        shuffle_dataset=False,
        **train.update_arguments(),
        delta=train.ratio_cap,
        beta=train.beta,
        use_bias_correction_kl=True,  # the gradient of KL(policy || base): each token's term is weighed by its whole ratio
        loss_type=train.loss_type,
        max_completion_length=parameters.most_tokens,  # nothing is cut: the divisor of dr_grpo
        scale_rewards=train.scale_rewards,
        temperature=parameters.policy.temperature,
        logging_steps=1,
        save_strategy="steps",
        save_steps=train.save_every * train.updates_per_batch,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        seed=parameters.seed,
        data_seed=parameters.seed,
        dataloader_pin_memory=False,
        ddp_find_unused_parameters=False,
        mask_truncated_completions=False,
    )
    config._n_gpu = min(config.n_gpu, 1)  # a process uses one GPU, however many it sees; transformers too sets it so
    return config
