"""Ways of giving credit, trained on the same budget: `python -m benchmarks.credit_arms FOLDER [--seeds 7 8 9] [--arms A …] [--jobs 2]`.

Each arm is one change of `params.yaml` (grpo-think or ppo-think of the tiny world, vanilla user). All seeds of all arms start from one base
and hold the benchmark with the test personas. FOLDER keeps everything, the parameters too: what is done is not done again, and a training
that was stopped goes on, both only with the settings, the code and the base they were begun with; anything else is refused by name. One
that fails is named and keeps no other from its turn. All arms with three seeds are 30 trainings of 75 steps: the seconds of each are
printed, so the first says how long the rest takes. `--steps 2` tries it out, in a folder of its own. A mean has Student's interval over
seeds. A difference is to the first arm and is judged as in the paper run: over seeds and scenarios, all rows one family of tests (Holm).
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from scipy.stats import t

from rlver.components.domain.files import read_json
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.crossed import Side, crossed, verdicts
from rlver.components.scoring.sentient import by_persona, final_emotion
from rlver.components.scoring.statistics import Estimated, Interval
from rlver.components.scoring.units import Units
from rlver.components.settings.settings import load_settings
from rlver.tasks.runtime.fingerprints import check_identity, training_identity
from rlver.tasks.runtime.people import known_personas

ROOT = Path(__file__).resolve().parents[1]
PPO = {"algorithm": "ppo", "personas_per_step": 64, "group_size": 1}
ARMS: Mapping[str, Mapping[str, Any]] = {
    "turn": {"credit": "turn"},
    "state": {"credit": "state"},
    "dialogue": {"credit": "dialogue"},
    "mica": {"credit": "mica", "scale_rewards": "group"},
    "turn-unscaled": {"credit": "turn", "scale_rewards": "none"},
    "turn-dr_grpo": {"credit": "turn", "loss_type": "dr_grpo", "scale_rewards": "none"},  # exact: no factor that later turns decide
    "ppo-token": PPO,
    "ppo-turn": {**PPO, "gae_level": "turn"},
    "ppo-token-emotion": {**PPO, "critic_sees_emotion": True},
    "ppo-turn-emotion": {**PPO, "gae_level": "turn", "critic_sees_emotion": True},
}
WHOLE = Interval(-100.0, 100.0)  # of a difference of final emotions
LAST = 10  # steps whose explained variance is averaged


def lay_out(folder: Path, steps: int | None) -> None:
    """Parameters (those the folder began with) and an overlay for each arm, then personas and the base, unless they are there."""
    (folder / "params").mkdir(parents=True, exist_ok=True)
    if not (folder / "params.yaml").is_file():
        shutil.copy(ROOT / "params.yaml", folder)
    for name, change in ARMS.items():
        with (folder / "params" / f"{name}.yaml").open("w", encoding="utf-8") as file:
            YAML().dump({"policy": {"thinking": True}, "train": {**change, **({"steps": steps} if steps else {})}}, file)
    once(folder, "personas", folder, "--out", "data", "--metrics", "personas.json", threads=2)
    once(folder, "base", folder, "--personas", "data/train.jsonl", "--out", "models/base", "--metrics", "base.json", threads=2)
    if read_json(folder / "base.json").get("cut_short"):
        print("warning: the warm start of the base was cut short by base.max_seconds; the arms are compared on a weaker base", flush=True)


def once(folder: Path, stage: str, where: Path, *arguments: str, threads: int = 1) -> float:
    """Run a stage in `folder` unless its mark in `where` says that it was done; returns its seconds, 0 when it was done.

    What it says goes to `where`/log.txt. Raises CalledProcessError. An output without its mark is of a stage that was interrupted.
    """
    mark = where / f"{stage}.done"
    if mark.is_file():
        return 0.0
    began = time.monotonic()
    with (where / "log.txt").open("a", encoding="utf-8") as log:
        subprocess.run(
            (sys.executable, "-m", f"rlver.tasks.stages.{stage}", *arguments),
            cwd=folder, check=True, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip
    mark.touch()
    return time.monotonic() - began


def place(folder: Path, arm: str, seed: int) -> Path:
    """The folder of all that one arm and seed leave."""
    return folder / "runs" / f"{arm}-s{seed}"


def refuse_others(folder: Path, arm: str, seed: int) -> None:
    """Write down what an arm and seed are. Raises ValueError, by name, if they were begun as something else."""
    settings = load_settings(folder / "params.yaml", arm, seed=seed)
    identity = training_identity(settings, folder / "data" / "train.jsonl", folder / "models" / "base", 1)
    talks = {f"evaluation.{name}": value for name, value in settings.evaluation.model_dump(mode="json").items()}
    check_identity(place(folder, arm, seed), identity | talks)


def run(folder: Path, arm: str, seed: int) -> bool:
    """Train and talk, unless it was done; whether it went well."""
    where = place(folder, arm, seed)
    own = where.relative_to(folder)
    common = ("--variant", arm, "--seed", str(seed))
    learn = ("--personas", "data/train.jsonl", "--base", "models/base", "--out", f"{own}/model", "--logs", f"{own}/logs")
    try:
        refuse_others(folder, arm, seed)  # once more: the code may have changed since the first training began
        seconds = once(folder, "train", where, *common, *learn)
        once(folder, "converse", where, *common, "--personas", "data/test.jsonl", "--model", f"{own}/model", "--out", f"{own}/test.jsonl")
    except ValueError as error:
        print(f"{where.name}: {error}; the others go on", flush=True)
        return False
    except subprocess.CalledProcessError as error:
        print(f"{where.name}: {error.cmd[2].rpartition('.')[2]} failed, see {where / 'log.txt'}; the others go on", flush=True)
        return False
    print(f"{where.name}: {mean(emotions(folder, arm, seed)):.1f}{f', trained in {seconds:.0f} s' if seconds else ''}", flush=True)
    return True


def emotions(folder: Path, arm: str, seed: int) -> dict[str, list[float]]:
    """The final emotions of a trained policy's dialogues, by persona."""
    return by_persona(load_transcripts(place(folder, arm, seed) / "test.jsonl"), final_emotion)


def mean(of: Mapping[str, Sequence[float]]) -> float:
    return fmean(value for values in of.values() for value in values)


def explained(folder: Path, arm: str, seed: int) -> float | None:
    """What the critic explained of the returns in the last steps, on average; None without a critic."""
    with (place(folder, arm, seed) / "logs" / "train.csv").open(encoding="utf-8") as file:
        shares = [row.get("explained_variance") for row in csv.DictReader(file)]
    return fmean(float(share) for share in shares[-LAST:] if share) if any(shares) else None


def interval(values: Sequence[float]) -> str:
    """Mean and 95% interval over seeds (Student's)."""
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{fmean(values):.1f} [{fmean(values) - half:.1f}, {fmean(values) + half:.1f}]"


def shown(one: Estimated) -> str:
    return f"{one.value:+.1f} [{one.ci95.low:+.1f}, {one.ci95.high:+.1f}]"


def main() -> int | str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of training, in place of those of params.yaml")
    given = parser.parse_args()
    folder, runs = given.folder.resolve(), [(arm, seed) for seed in given.seeds for arm in given.arms]
    try:
        lay_out(folder, given.steps)
        for arm, seed in runs:
            refuse_others(folder, arm, seed)
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[2].rpartition('.')[2]} failed, see {folder / 'log.txt'}"
    except ValueError as error:
        return str(error)
    with ThreadPoolExecutor(given.jobs) as pool:
        went_well = dict(zip(runs, pool.map(lambda one: run(folder, *one), runs), strict=True))
    whole = [arm for arm in given.arms if all(went_well[arm, seed] for seed in given.seeds)]
    report(folder, whole, given.seeds)
    return 0 if len(whole) == len(given.arms) else f"not whole, and left out: {', '.join(arm for arm in given.arms if arm not in whole)}"


def report(folder: Path, arms: Sequence[str], seeds: Sequence[int]) -> None:
    """A row for each arm; differences are to the first."""
    first = arms[0] if arms else "-"
    print(f"credit | seeds {' '.join(map(str, seeds))} | mean over seeds | difference to {first} | verdict | explained variance")
    scenarios = Units.of(known_personas(folder / "data" / "test.jsonl")).scenario_of
    found = {arm: {seed: emotions(folder, arm, seed) for seed in seeds} for arm in arms}
    differences = {arm: crossed([Side(1, found[arm]), Side(-1, found[first])], scenarios) for arm in arms[1:]}
    judged = verdicts(differences)
    for arm, by_seed in found.items():
        means = [mean(of) for of in by_seed.values()]
        difference = differences.get(arm)
        apart = shown(difference.estimated(WHOLE)) if difference is not None else "-"
        shares = [share for seed in seeds if (share := explained(folder, arm, seed)) is not None]
        told = f"{fmean(shares):.2f}" if shares else "-"
        print(f"{arm} | {' '.join(f'{value:.1f}' for value in means)} | {interval(means)} | {apart} | {judged.get(arm, '-')} | {told}")


if __name__ == "__main__":
    sys.exit(main())
