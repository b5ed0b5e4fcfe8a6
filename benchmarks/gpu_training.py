"""Real GRPO steps of a small pretrained model for benchmarks/gpu.py: the stage `train` itself, in a folder of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

from ruamel.yaml import YAML

from rlver.components.domain.files import write_jsonl
from rlver.components.domain.packages import MINILM, SMOLLM2, is_fetched
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.training.curves import CurveFile
from rlver.tasks.runtime.environment import project_root

NEEDS = ("trl", "datasets", "accelerate", "peft")
PERSONAS, SEED = 64, 7
OVERLAY = "pretrained"  # the recipe whose numbers are taken
AVERAGED = 5  # steps at either end of the curve


def thirty_steps(weights: Path, steps: int) -> None:
    """Train the policy in `weights` for so many steps and print what they took and what they did. Raises CalledProcessError."""
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        print(f"\nGRPO steps: not run, {', '.join(missing)} is not installed")
        return
    root, heard = project_root(), is_fetched(MINILM) and is_fetched(SMOLLM2)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _lay_out(root, work, steps, heard)
        command = [
            sys.executable, "-m", "rlver.tasks.stages.train", "--variant", "gpu", "--personas", "train.jsonl", "--base", str(weights.resolve()),
            "--out", "models/gpu", "--logs", "logs/gpu",
        ]  # fmt: skip
        subprocess.run(command, cwd=work, env=_environment(root), check=True)
        rows = CurveFile(work / "logs" / "gpu" / "train").rows()
    first, last = (mean(float(row["emotion_mean"]) for row in part) for part in (rows[:AVERAGED], rows[-AVERAGED:]))
    took, gap = (mean(float(row[name]) for row in rows) for name in ("seconds", "logprob_gap"))
    print(f"\n{len(rows)} GRPO steps of {weights.name}, user {'heard' if heard else 'scripted (the models of heard are not fetched)'}:")
    print(
        f"  {took:.1f} s a step; mean emotion of the rollouts {first:.1f} (first {AVERAGED}) -> {last:.1f} (last {AVERAGED}); gap {gap:.4f} nats"
    )


def _environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"}


def _lay_out(root: Path, work: Path, steps: int, heard: bool) -> None:
    """params.yaml, the overlay and the personas of a training in `work`."""
    yaml = YAML(typ="safe")
    overlay = yaml.load((root / "params" / f"{OVERLAY}.yaml").read_text("utf-8"))
    overlay["train"] |= {"steps": steps, "save_every": steps, "evaluate_every": steps}
    if not heard:
        overlay["simulator"] = {"appraiser": "scripted", "speaker": "scripted"}
    (work / "params").mkdir()
    (work / "params.yaml").write_bytes((root / "params.yaml").read_bytes())
    with (work / "params" / "gpu.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(overlay, file)
    train, _ = compose_personas(load_library(), SEED, PERSONAS, 8)
    write_jsonl(work / "train.jsonl", [one.model_dump(mode="json") for one in train])
