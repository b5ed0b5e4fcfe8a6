"""A checkpoint that verl's own manager wrote counts as whole, and verl's own merger makes a policy of it that we load. It needs verl's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("verl", reason="verl has an environment of its own (docs/adapters.md)")

from replying import ROOT
from safetensors.torch import load_file

from rlver.components.policy.load import check_policy, load_policy
from rlver.components.training import verl_engine
from rlver.tasks.runtime import servers


def sharded(folder: Path) -> Path:
    """global_step_3 of two processes in `folder`."""
    checkpoint, port = folder / "global_step_3", servers.free_port()
    (checkpoint / "actor").mkdir(parents=True)
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "components" / "adapters")))
    where = {"MASTER_ADDR": servers.HOST, "MASTER_PORT": str(port), "WORLD_SIZE": "2", "PYTHONPATH": paths}
    command = [sys.executable, str(Path(__file__).with_name("verl_checkpoint.py")), str(checkpoint)]
    ranks = [subprocess.Popen(command, env={**os.environ, **where, "RANK": rank, "LOCAL_RANK": rank}) for rank in ("0", "1")]
    assert [one.wait(timeout=200) for one in ranks] == [0, 0]
    return checkpoint


def test_verl_s_checkpoint_is_whole_and_its_merger_s_policy_is_the_weights_that_were_trained(tmp_path: Path) -> None:
    checkpoint = sharded(tmp_path)
    assert verl_engine.newest_whole(tmp_path, with_critic=False) == checkpoint and verl_engine.step_of(checkpoint) == 3
    told = ["merge", "--backend", "fsdp", "--local_dir", str(checkpoint / "actor"), "--target_dir", str(tmp_path / "merged")]
    subprocess.run([sys.executable, "-m", "verl.model_merger", *told], check=True, timeout=200)
    check_policy(tmp_path / "merged")
    found, trained = load_file(tmp_path / "merged" / "model.safetensors"), torch.load(tmp_path / "whole.pt", weights_only=True)
    assert found and all(torch.equal(found[name], trained[name].bfloat16()) for name in found), "verl's merger rounds to bfloat16"
    assert load_policy(tmp_path / "merged")[0].dtype == torch.float32
    (checkpoint / "actor" / "optim_world_size_2_rank_1.pt").write_bytes(b"")
    assert verl_engine.newest_whole(tmp_path, with_critic=False) is None
    shutil.rmtree(checkpoint)
