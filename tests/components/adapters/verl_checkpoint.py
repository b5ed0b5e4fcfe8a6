"""One of two processes that shard a micro model by FSDP2, as verl does, take a step, and save it by verl's own manager of checkpoints. Run by torchrun's variables."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from micro import micro_model, micro_tokenizer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from verl.trainer.config import CheckpointConfig
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager


def main(checkpoint: Path) -> None:
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    model, tokenizer = micro_model(), micro_tokenizer()
    model.config.architectures = [type(model).__name__]  # as of a model that was loaded
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimiser)
    ids = torch.arange(12).reshape(1, 12)
    model(input_ids=ids, labels=ids).loss.backward()
    optimiser.step()
    manager = FSDPCheckpointManager(
        model, optimiser, schedule, tokenizer, checkpoint_config=CheckpointConfig(save_contents=["model", "optimizer", "extra"])
    )
    manager.save_checkpoint(str(checkpoint / "actor"), global_step=3, max_ckpt_to_keep=2)
    whole = {name: weight.full_tensor() for name, weight in model.state_dict().items()}
    if torch.distributed.get_rank() == 0:
        torch.save({}, checkpoint / "data.pt")
        torch.save(whole, checkpoint.parent / "whole.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
