"""verl's default trainer on a CPU, from its data to its replay buffer: its own workers in a local Ray, and its own TransferQueue.

In place of its servers stands our sampler with a micro model, inside the worker. Nothing is learned.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData, NonTensorStack
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, PPOTrainerSync
from verl.workers.rollout.replica import TokenOutput
from verl_worker import Micro, configuration

from rlver.components.policy.sampler import SampleRequest

STRIP = "rlver-strip"  # the loop whose variant is `strip`, beside `rlver`
TOLD = (
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=2",
    "data.dataloader_num_workers=0",
    "trainer.v1.sampler.sync_refill_failed_groups=True",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
)


class Servers:
    """In place of verl's client. It goes to the worker before it has a model. `fails` are of the requests to come: the first is number 1."""

    def __init__(self) -> None:
        self.speaks: Micro | None = None
        self.fails: Mapping[int, str] = {}
        self.asked = 0

    def expect(self, thinks: bool, fails: Mapping[int, str]) -> None:
        self.speaks, self.fails, self.asked = Micro(thinks), fails, 0

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        assert self.speaks is not None
        self.asked += 1
        how = self.fails.get(self.asked, "completed")
        if how == "away":
            raise ConnectionError("the server is away")
        sample = await self.speaks.sample(SampleRequest(request_id, tuple(prompt_ids), len(prompt_ids), sampling_params["max_tokens"]))
        return TokenOutput(
            token_ids=list(sample.token_ids),
            log_probs=list(sample.logprobs),
            stop_reason=how,
            extra_fields={"global_steps": 1, "min_global_steps": 1, "max_global_steps": 1},
        )


def _expect(worker: Any, thinks: bool, fails: Mapping[int, str]) -> None:
    worker.llm_client.expect(thinks, fails)


@dataclass
class Training:
    """A trainer that has everything but weights."""

    trainer: Any

    def dialogues(self, prompts: int, loop: str = "rlver", fails: Mapping[int, str] | None = None) -> tuple[Any, dict[str, Any]]:
        """The batch that the replay buffer gives after this many prompts were handed to the worker, and its metrics."""
        (worker,) = self.trainer.agent_loop_manager.agent_loop_workers
        ray.get(worker.__ray_call__.remote(_expect, loop == STRIP, fails or {}))
        batch = self.trainer._next_train_batch(prompts)
        batch["agent_name"] = NonTensorStack(*[NonTensorData(loop) for _ in range(prompts)])
        self.trainer._submit_batch_to_rollout(batch)
        found: tuple[Any, dict[str, Any]] = self.trainer.replay_buffer.sample(1, "train", prompts)
        return found


@contextmanager
def training(project: Path) -> Iterator[Training]:
    config = configuration(project, "direct", *TOLD, f"data.val_files={project / 'people.jsonl'}")
    loops = OmegaConf.load(project / "agent.yaml")
    loops.append({**loops[0], "name": STRIP, "variant": "strip"})
    OmegaConf.save(loops, project / "agent.yaml")
    OmegaConf.resolve(config)
    home = tempfile.mkdtemp(prefix="ray-")
    told = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_worker_register_timeout_seconds": "1800"}
    os.environ.update({name: value for name, value in told.items() if name not in os.environ})
    try:
        paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}  # its processes find what this one does
        ray.init(
            "local",
            num_cpus=3,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=home,
            object_store_memory=200_000_000,
            runtime_env=paths,
        )
        tq.init(config.transfer_queue)
        trainer = PPOTrainerSync(config)
        trainer._init_tokenizer()
        trainer._init_dataloader()
        trainer.global_steps = 1
        trainer.agent_loop_manager = AgentLoopManagerTQ.create(config=config, llm_client=Servers())
        yield Training(trainer)
    finally:
        tq.close()
        ray.shutdown()
        shutil.rmtree(home, ignore_errors=True)
