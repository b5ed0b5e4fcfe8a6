"""A stand-in for verl's two programs, for the process part alone: it learns nothing. A real child that writes metrics and checkpoints as verl 0.9.1 does,
leaves a process in a session of its own behind as Ray's workers are, and goes wrong where `behave` in its folder says so.

That the arguments are verl's own is held elsewhere (tests/components/adapters/test_verl_overrides.py, in verl's environment).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TRAINER = """
import json, pathlib, subprocess, sys, time, zipfile
told = dict(one.lstrip("+").split("=", 1) for one in sys.argv[5:])
told = {name: value.strip("'") for name, value in told.items()}
behave = pathlib.Path("behave").read_text().split() if pathlib.Path("behave").exists() else []
folder, steps = pathlib.Path(told["trainer.default_local_dir"]), int(told["trainer.total_training_steps"])
tracker = folder / "latest_checkpointed_iteration.txt"
done = int(tracker.read_text()) if tracker.exists() else 0
metrics = open(told["ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH"], "wb", buffering=0)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
with open("started.jsonl", "a") as file:
    file.write(json.dumps({"from": done, "told": told, "worker": worker.pid}) + "\\n")

def log(step, data):
    metrics.write(json.dumps({"step": step, "data": data}).encode() + b"\\n")
    print("step:", step, flush=True)

def save(step, whole=True):
    actor = folder / f"global_step_{step}" / "actor"
    (actor / "huggingface").mkdir(parents=True)
    (actor / "huggingface" / "config.json").write_text("{}")
    (actor / "fsdp_config.json").write_text('{"world_size": 2}')
    (actor / "base").write_text(told["actor_rollout_ref.model.path"])
    for part in ("model", "optim", "extra_state"):
        for rank in range(2 if whole else 1):
            with zipfile.ZipFile(actor / f"{part}_world_size_2_rank_{rank}.pt", "w") as file:
                file.writestr("data", str(step))
    with zipfile.ZipFile(actor.parent / "data.pt", "w") as file:
        file.writestr("data", str(step))
    if whole:
        tracker.write_text(str(step))

VALIDATED = {"val-core/rlver/reward/mean@1": 0.41, "val-aux/rlver/emotion/mean@1": 41.0, "val-aux/rlver/well_formed/mean@1": 0.75, "val-aux/x": 1}
if told["trainer.val_before_train"] == "true":
    log(0, VALIDATED)
for step in range(done + 1, steps + 1):
    if behave[:1] == ["die"] and int(behave[1]) == step:
        raise RuntimeError("no memory is left on GPU 3")
    if step % int(told["trainer.save_freq"]) == 0 or step == steps:
        save(step, whole=behave != ["half", str(step)])
    entropy = 0.001 if behave == ["sharp", str(step)] else 1.5
    log(step, {"critic/score/mean": 0.4 + step / 100, "actor/grad_norm": 0.5, "actor/entropy": entropy, "actor/loss": 0.1,
               "actor/lr": 1e-3, "timing_s/step": 2.5, "perf/throughput": 9.0, "training/note": "a word"} | VALIDATED)
    if behave == ["half", str(step)]:
        raise OSError("no space left")
    while behave == ["hang", str(step)]:
        time.sleep(0.1)
"""
MERGER = """
import pathlib, shutil, sys
assert sys.argv[1:4] == ["merge", "--backend", "fsdp"] and sys.argv[4] == "--local_dir" and sys.argv[6] == "--target_dir"
if pathlib.Path("behave").exists() and pathlib.Path("behave").read_text() == "no merger":
    sys.exit("no merger today")
shutil.copytree(pathlib.Path(sys.argv[5], "base").read_text(), sys.argv[7])
pathlib.Path(sys.argv[7], "merged_from").write_text(pathlib.Path(sys.argv[5]).parent.name)
"""


def put_in(root: Path) -> dict[str, str]:
    """Lay out `.venv-verl` in `root`, and a driver's tool that counts eight GPUs; returned are the variables of a stage that shall find it."""
    packages, tools = root / ".venv-verl" / "packages", root / "tools"
    for name, program in (("trainer/main_ppo.py", TRAINER), ("model_merger/__main__.py", MERGER)):
        (packages / "verl" / name).parent.mkdir(parents=True)
        (packages / "verl" / name).write_text(program)
    for name, version in (("verl", "0.9.1"), ("rlver", "0.1.0")):
        (packages / f"{name}-{version}.dist-info").mkdir()
        (packages / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    python = root / ".venv-verl" / "bin" / "python"
    _program(python, f'PYTHONPATH="{packages}" exec "{sys.executable}" "$@"')
    _program(tools / "nvidia-smi", "for n in 0 1 2 3 4 5 6 7; do echo GPU $n: a stand-in; done")
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
