"""verl as an engine: our settings as overrides of its recipe, a line of its metrics as rows of our curves, which of its checkpoints is whole.

Nothing here imports verl; tests/components/adapters/test_verl_overrides.py holds the overrides against its own configuration. What verl has and our
parameters do not (parallelism, offloading, its rollout correction) stands in the recipe.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.domain.files import write_text_atomically
from rlver.components.policy.section import PolicySettings
from rlver.components.training.section import UpdateParameters

LOOP = "rlver.components.adapters.verl.SupportAgentLoop"
TRACKER = "latest_checkpointed_iteration.txt"  # verl writes it last, and resumes from what it names
KEPT = 2  # checkpoints, as our own trainer
LOSSES = {"dapo": "token-mean", "grpo": "seq-mean-token-mean", "dr_grpo": "seq-mean-token-sum-norm"}
_TRAIN = {
    "actor/loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/lr": "learning_rate",
    "actor/entropy": "entropy",
    "actor/kl_loss": "kl",
    "actor/pg_clipfrac": "clip_fraction",
    "critic/vf_loss": "value_loss",
    "critic/vpred_mean": "value_mean",
    "critic/vf_explained_var": "explained_variance",
    "timing_s/step": "seconds",
}
_CHECK = {
    "val-core/rlver/reward/mean@1": "reward_mean",
    "val-aux/rlver/emotion/mean@1": "emotion_mean",
    "val-aux/rlver/turns/mean@1": "turns_mean",
    "val-aux/rlver/well_formed/mean@1": "well_formed_rate",
}


WATCHED = "rlver-watched"  # the agent loop of held-out personas, whose users are those of simulator.difficulty


@dataclass(frozen=True)
class Places:
    """Absolute paths, which every node can read: the base, and the folder of this training with all that verl gets and makes."""

    base: Path
    folder: Path

    @property
    def learning(self) -> Path:
        return self.folder / "learning.jsonl"

    @property
    def watched(self) -> Path:
        return self.folder / "watched.jsonl"

    @property
    def loops(self) -> Path:
        return self.folder / "agent.yaml"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"


def agent_loops(params: Path, variant: str, learning: str, watched: str) -> str:
    """verl's list of agent loops: ours, with the users of this variant at these difficulties. JSON, which is YAML."""
    difficulties = {"rlver": learning, WATCHED: watched}  # the names that the dataset gives its rows
    return json.dumps(
        [
            {"name": name, "_target_": LOOP, "params": str(params), "variant": variant, "difficulty": difficulty}
            for name, difficulty in difficulties.items()
        ]
    )


def overrides(update: UpdateParameters, variant: str, places: Places, begins: bool) -> list[str]:
    """What our parameters say, as Hydra's arguments. `begins`: there is no checkpoint, so the watched personas are heard before the first step."""
    train = update.train
    values: dict[str, Any] = {
        **_data(update, places),
        **_actor(update),
        **_rollout(update, places),
        "algorithm.adv_estimator": "gae" if train.algorithm == "ppo" else "grpo",
        "algorithm.norm_adv_by_std_in_grpo": train.scale_rewards == "group",
        "algorithm.gamma": train.gamma,
        "algorithm.lam": train.gae_lambda,
        **(_critic(update) if train.algorithm == "ppo" else {}),
        "actor_rollout_ref.model.path": places.base,
        "actor_rollout_ref.model.enable_gradient_checkpointing": train.gradient_checkpointing,
        "trainer.project_name": "rlver",
        "trainer.experiment_name": variant,
        "trainer.logger": ["file", "console"],
        "trainer.n_gpus_per_node": train.verl_gpus,
        "trainer.nnodes": train.verl_nodes,
        "trainer.total_training_steps": train.steps,
        "trainer.total_epochs": train.steps,  # an epoch has a step at least
        "trainer.save_freq": train.save_every,
        "trainer.test_freq": train.evaluate_every,
        "trainer.val_before_train": begins,
        "trainer.default_local_dir": places.checkpoints,
        "trainer.resume_mode": "auto",
        "trainer.max_actor_ckpt_to_keep": KEPT,
        "trainer.max_critic_ckpt_to_keep": KEPT,
        "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH": places.metrics,
        "hydra.run.dir": places.folder / "hydra",
    }
    return [f"{name}={_written(value)}" for name, value in values.items()]


def _data(update: UpdateParameters, places: Places) -> dict[str, Any]:
    return {
        "data.train_files": places.learning,
        "data.val_files": places.watched,
        "+data.watched_agent": WATCHED,
        "data.train_batch_size": update.train.personas_per_step,
        "data.max_prompt_length": update.policy.max_context_tokens,
        "data.max_response_length": update.policy.max_context_tokens,
        "data.seed": update.seed,
    }


def _actor(update: UpdateParameters) -> dict[str, Any]:
    train, actor = update.train, "actor_rollout_ref.actor"
    return {
        f"{actor}.ppo_mini_batch_size": train.personas_per_step,  # all of a step at once
        f"{actor}.ppo_epochs": train.updates_per_batch,
        f"{actor}.ppo_max_token_len_per_gpu": _tokens_at_once(update),
        f"{actor}.data_loader_seed": update.seed,
        f"{actor}.clip_ratio": train.epsilon,
        f"{actor}.clip_ratio_low": train.epsilon,
        f"{actor}.clip_ratio_high": train.epsilon_high,
        f"{actor}.use_kl_loss": train.beta > 0,
        f"{actor}.kl_loss_coef": train.beta,
        f"{actor}.kl_loss_type": "low_var_kl+",  # with the gradient of KL(policy || base), as TRL's
        f"{actor}.clip_ratio_c": train.ratio_cap,
        f"{actor}.loss_agg_mode": LOSSES[train.loss_type],
        f"{actor}.loss_scale_factor": update.most_tokens if train.loss_type == "dr_grpo" else None,
        **_optimiser(actor, train.learning_rate, update),
    }


def _critic(update: UpdateParameters) -> dict[str, Any]:
    train = update.train
    return {
        "critic.model.enable_gradient_checkpointing": train.gradient_checkpointing,
        "critic.cliprange_value": train.value_clip or 1e9,
        "critic.ppo_max_token_len_per_gpu": _tokens_at_once(update),
        "critic.data_loader_seed": update.seed,
        **_optimiser("critic", train.critic_learning_rate, update),
    }


def _optimiser(whose: str, learning_rate: float, update: UpdateParameters) -> dict[str, Any]:
    return {
        f"{whose}.grad_clip": update.train.max_grad_norm,
        f"{whose}.optim.clip_grad": update.train.max_grad_norm,
        f"{whose}.optim.lr": learning_rate,
        f"{whose}.optim.lr_scheduler_type": update.train.learning_rate_schedule,
        f"{whose}.optim.lr_warmup_steps": update.train.warmup_steps,
        f"{whose}.optim.weight_decay": 0.0,
    }


def _rollout(update: UpdateParameters, places: Places) -> dict[str, Any]:
    policy, rollout = update.policy, "actor_rollout_ref.rollout"
    return {
        f"{rollout}.n": update.train.group_size,
        f"{rollout}.seed": update.seed,
        f"{rollout}.temperature": policy.temperature,
        f"{rollout}.top_p": policy.top_p,
        f"{rollout}.max_model_len": policy.max_context_tokens,
        f"{rollout}.val_kwargs.do_sample": policy.temperature > 0,
        f"{rollout}.val_kwargs.temperature": policy.temperature,
        f"{rollout}.val_kwargs.top_p": policy.top_p,
        f"{rollout}.agent.agent_loop_config_path": places.loops,
    }


def _tokens_at_once(update: UpdateParameters) -> int:
    return update.train.rows_per_forward * update.policy.max_context_tokens


def _written(value: Any) -> str:
    """As Hydra reads it."""
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    if isinstance(value, (int, float)):
        return repr(value)
    quoted = str(value).replace("'", "\\'")
    return f"'{quoted}'"


def rows_of(line: str, policy: PolicySettings, format_gate: bool) -> tuple[int, dict[str, float], dict[str, float]]:
    """(step, of the training, of the watched personas) of a line of verl's file logger; either may be empty. Shares in 0..1, emotion in 0..100.

    Names are ours where we have the same, else verl's. verl's score is the reward of a row: the emotion, where no gate makes it 0 and a dialogue is a row.
    Raises ValueError for a line that is none.
    """
    read = json.loads(line)
    data = {name: math.nan if value is None else value for name, value in read["data"].items()}  # its logger writes NaN as null
    given = {name: float(value) for name, value in data.items() if isinstance(value, (int, float))}
    trained = {_TRAIN.get(name, name): value for name, value in given.items() if not name.startswith("val-")}
    checked = {_CHECK.get(name, name): value for name, value in given.items() if name.startswith("val-")}
    score = trained.get("critic/score/mean")
    if score is not None and not (policy.thinking and (format_gate or policy.thoughts == "strip")):
        trained["emotion_mean"] = 100 * score
    if "well_formed_rate" in checked:
        checked["malformed_rate"] = 1 - checked.pop("well_formed_rate")
    return int(read["step"]), trained, checked


def newest_whole(checkpoints: Path, with_critic: bool) -> Path | None:
    """The newest of verl's checkpoints of which every process has written all: weights, optimiser, the state of its random draws and of its data."""
    found = sorted(checkpoints.glob("global_step_*"), key=step_of, reverse=True)
    return next((one for one in found if _is_whole(one, with_critic)), None)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("_")[2])


def _is_whole(checkpoint: Path, with_critic: bool) -> bool:
    try:
        wanted = [checkpoint / "data.pt"]
        for role in ("actor", *(("critic",) if with_critic else ())):
            folder = checkpoint / role
            world = int(json.loads((folder / "fsdp_config.json").read_text(encoding="utf-8"))["world_size"])
            ranks = (f"{part}_world_size_{world}_rank_{rank}.pt" for part in ("model", "optim", "extra_state") for rank in range(world))
            wanted += [folder / "huggingface" / "config.json", *(folder / name for name in ranks)]
        # torch writes a zip file, whose directory comes last
        return all(file.is_file() and (file.suffix != ".pt" or zipfile.is_zipfile(file)) for file in wanted)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def go_on_from(checkpoints: Path, with_critic: bool) -> int:
    """The step of the newest whole checkpoint, which verl will resume from; 0: none. Those that are not whole, and older ones, are deleted."""
    newest = newest_whole(checkpoints, with_critic)
    for one in checkpoints.glob("global_step_*"):
        if one != newest:
            shutil.rmtree(one)
    if newest is None:
        (checkpoints / TRACKER).unlink(missing_ok=True)
        return 0
    write_text_atomically(checkpoints / TRACKER, str(step_of(newest)))
    return step_of(newest)


def gauges(row: Mapping[str, float]) -> str:
    """The numbers of a step that people look at."""
    shown = (("emotion", "emotion_mean", ".1f"), ("score", "critic/score/mean", ".3f"), ("seconds", "seconds", ".1f"))
    return "  ".join(f"{what} {row[name]:{form}}" for what, name, form in shown if name in row)
