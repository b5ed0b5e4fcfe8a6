"""Ways of giving credit, trained on the same budget: `python -m benchmarks.credit_arms FOLDER [--seeds 7 8 9] [--arms A …] [--jobs 2]`.

Each arm is one change of `params.yaml` (grpo-think or ppo-think of the tiny world, vanilla user). All seeds of all arms start from one base
and hold the benchmark with the test personas. FOLDER keeps everything: what is done is not done again, and a training that was
stopped goes on. `--steps 2` tries it out. About eight minutes for each training on a quiet core. Intervals are Student's over seeds; a difference is to the first
arm, paired by seed.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from scipy.stats import t

from rlver.components.rollout.transcripts import load_transcripts

ROOT = Path(__file__).resolve().parents[1]
PPO = {"algorithm": "ppo", "personas_per_step": 64, "group_size": 1}
ARMS: Mapping[str, Mapping[str, Any]] = {
    "turn": {"credit": "turn"},
    "dialogue": {"credit": "dialogue"},
    "mica": {"credit": "mica", "scale_rewards": "group"},
    "turn-dr_grpo": {"credit": "turn", "loss_type": "dr_grpo"},
    "ppo-token": PPO,
    "ppo-turn": {**PPO, "gae_level": "turn"},
    "ppo-token-emotion": {**PPO, "critic_sees_emotion": True},
    "ppo-turn-emotion": {**PPO, "gae_level": "turn", "critic_sees_emotion": True},
}
LAST = 10  # steps whose explained variance is averaged


def lay_out(folder: Path, steps: int | None) -> None:
    """Parameters and an overlay for each arm, then personas and the base, unless they are there."""
    (folder / "params").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "params.yaml", folder)
    for name, change in ARMS.items():
        with (folder / "params" / f"{name}.yaml").open("w", encoding="utf-8") as file:
            YAML().dump({"policy": {"thinking": True}, "train": {**change, **({"steps": steps} if steps else {})}}, file)
    if not (folder / "models" / "base").is_dir():
        stage(folder, "personas", "--out", "data", "--metrics", "personas.json", threads=2)
        stage(folder, "base", "--personas", "data/train.jsonl", "--out", "models/base", "--metrics", "base.json", threads=2)


def stage(folder: Path, name: str, *arguments: str, threads: int = 1) -> None:
    """Run a stage in `folder`; what it says goes to `folder`/log.txt. Raises CalledProcessError."""
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        subprocess.run(
            (sys.executable, "-m", f"rlver.tasks.stages.{name}", *arguments),
            cwd=folder, check=True, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip


def run(folder: Path, arm: str, seed: int) -> None:
    """Train and talk, unless it was done."""
    name = f"{arm}-s{seed}"
    common = ("--variant", arm, "--seed", str(seed))
    if not (folder / "models" / name).is_dir():
        stage(
            folder, "train", *common, "--personas", "data/train.jsonl", "--base", "models/base", "--out", f"models/{name}", "--logs", f"logs/{name}"
        )  # fmt: skip
    if not (folder / f"{name}.jsonl").is_file():
        stage(folder, "converse", *common, "--personas", "data/test.jsonl", "--model", f"models/{name}", "--out", f"{name}.jsonl")
    print(f"{name}: {score(folder, arm, seed):.1f}", flush=True)


def score(folder: Path, arm: str, seed: int) -> float:
    """The mean final emotion of an arm's dialogues."""
    dialogues = load_transcripts(folder / f"{arm}-s{seed}.jsonl")
    return fmean(one.emotion_final for one in dialogues if one.emotion_final is not None)


def explained(folder: Path, arm: str, seed: int) -> float | None:
    """What the critic explained of the returns in the last steps, on average; None without a critic."""
    with (folder / "logs" / f"{arm}-s{seed}" / "train.csv").open(encoding="utf-8") as file:
        shares = [row.get("explained_variance") for row in csv.DictReader(file)]
    return fmean(float(share) for share in shares[-LAST:] if share) if any(shares) else None


def interval(values: Sequence[float]) -> str:
    """Mean and 95% interval over seeds."""
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{fmean(values):.1f} [{fmean(values) - half:.1f}, {fmean(values) + half:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of training, in place of those of params.yaml")
    given = parser.parse_args()
    lay_out(given.folder, given.steps)
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in [pool.submit(run, given.folder, arm, seed) for seed in given.seeds for arm in given.arms]:
            done.result()
    print(f"credit | seeds {' '.join(map(str, given.seeds))} | mean over seeds | difference to {given.arms[0]} | explained variance")
    scores = {arm: [score(given.folder, arm, seed) for seed in given.seeds] for arm in given.arms}
    for arm, values in scores.items():
        apart = interval([a - b for a, b in zip(values, scores[given.arms[0]], strict=True)]) if arm != given.arms[0] else "-"
        shares = [share for seed in given.seeds if (share := explained(given.folder, arm, seed)) is not None]
        print(
            f"{arm} | {' '.join(f'{value:.1f}' for value in values)} | {interval(values)} | {apart} | {f'{fmean(shares):.2f}' if shares else '-'}"
        )


if __name__ == "__main__":
    main()
