"""The recipe of docs/pretrained.md, its stages in order on one machine with a GPU: one warm-up, then several seeds of the training side by side.

    python -m benchmarks.gpu_recipe FOLDER                      # seeds 7, 8 and 9; what a stage said lies in FOLDER/said
    python -m benchmarks.gpu_recipe FOLDER --alone              # and a training that begins with the raw model

It needs neither DVC nor Prefect nor MLflow, so that it runs where only the extras `train`, `heard` and `eval` are. Every model talks with the test
personas of seed 7. The trained ones and the warm-up also meet challenging users, and the users who ramble.
A stage that fails ends nothing but those that need its files; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rlver.tasks.runtime.environment import project_root

VARIANTS = RAW, WARMED, TRAINED = "pretrained-raw", "pretrained-warmup", "pretrained"
ALONE = f"{TRAINED}-alone"
SHIFT = "rambling"


@dataclass(frozen=True)
class Step:
    """A command of this project in the folder, and its name."""

    name: str
    module: str
    arguments: tuple[str, ...]


def stage(name: str, which: str, **options: str) -> Step:
    asked = [text for option, value in options.items() for text in (f"--{option.replace('_', '-')}", value)]
    return Step(name, f"rlver.tasks.stages.{which}", tuple(asked))


def waves(seeds: Sequence[int], alone: bool) -> Iterator[list[Step]]:
    """What can run side by side, one group after the other."""
    yield [
        stage("personas", "personas", variant=TRAINED, out="data/personas", metrics="metrics/personas.json"),
        stage("base", "base", variant=RAW, out=f"models/{RAW}", metrics=f"metrics/{RAW}/base.json"),
    ]
    yield [stage("warmup", "warmup", variant=WARMED, base=f"models/{RAW}", out=f"models/{WARMED}", metrics=f"metrics/{WARMED}/warmup.json")]
    trained = {f"{TRAINED}-s{seed}": (WARMED, seed) for seed in seeds} | ({ALONE: (RAW, seeds[0])} if alone else {})
    learning = [
        stage(
            f"train {name}",
            "train",
            variant=TRAINED,
            seed=str(seed),
            personas="data/personas/train.jsonl",
            base=f"models/{base}",
            out=f"models/{name}",
            logs=f"logs/{name}",
        )
        for name, (base, seed) in trained.items()
    ]
    yield [*learning, *(step for name in (RAW, WARMED) for step in _measured(name, name))]
    yield [
        *(step for name in trained for step in _measured(name, TRAINED)),
        *(step for name in (WARMED, *trained) for step in _others(name)),
    ]


def _measured(name: str, variant: str) -> list[Step]:
    model = f"models/{name}"
    return [
        stage(f"converse {name}", "converse", variant=variant, personas="data/personas/test.jsonl", model=model, out=f"transcripts/{name}.jsonl"),
        stage(f"benchmark {name}", "benchmark", variant=variant, model=model, out=f"metrics/{name}/general.json"),
    ]  # fmt: skip


def _others(name: str) -> list[Step]:
    """Users that no training met."""
    variant, model, people = WARMED if name == WARMED else TRAINED, f"models/{name}", "data/personas/test.jsonl"
    out = f"transcripts/challenging/{name}.jsonl"
    shifted = ["--own-users", "--shifts", SHIFT, "--policy", f"{variant}={model}", "--personas", people]
    shifted += ["--transcripts", "transcripts/robustness", "--out", f"metrics/{name}/robustness.json"]
    return [
        stage(f"challenging {name}", "converse", variant=variant, personas=people, model=model, out=out, difficulty="challenging"),
        Step(f"{SHIFT} {name}", "rlver.flows.cli", ("robustness", *shifted)),
    ]


def run(folder: Path, steps: Sequence[Step], began: float) -> bool:
    """All of them at once, each with its share of the cores. Prints one line for each that ends; whether all ended well."""
    threads = str(max(1, (os.cpu_count() or 1) // len(steps)))
    environment = {**os.environ, "PYTHONPATH": f"{project_root()}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "HF_HUB_OFFLINE": "1"}
    (folder / "said").mkdir(exist_ok=True)
    under_way: dict[Step, tuple[Any, float]] = {}
    for step in steps:
        with (folder / "said" / f"{step.name.replace(' ', '-')}.txt").open("w", encoding="utf-8") as said:
            command = [sys.executable, "-m", step.module, *step.arguments]
            child = subprocess.Popen(
                command, cwd=folder, env={**environment, "OMP_NUM_THREADS": threads}, stdout=said, stderr=subprocess.STDOUT
            )
        under_way[step] = (child, time.monotonic())
    well = True
    while under_way:
        for step, (child, started) in list(under_way.items()):
            if (code := child.poll()) is not None:
                took, ended = time.monotonic() - started, time.monotonic() - began
                print(f"{ended:6.0f} s  {step.name:32} {took:6.1f} s  {'' if code == 0 else f'FAILED ({code})'}", flush=True)
                well &= code == 0
                del under_way[step]
        time.sleep(0.1)
    return well


def lay_out(folder: Path, less: Sequence[str]) -> None:
    """params.yaml and the three overlays; `less` are SECTION.KEY=VALUE of all overlays, for a short trial."""
    root, yaml = project_root(), YAML(typ="safe")
    (folder / "params").mkdir(parents=True, exist_ok=True)
    (folder / "params.yaml").write_bytes((root / "params.yaml").read_bytes())
    for variant in VARIANTS:
        overlay = yaml.load((root / "params" / f"{variant}.yaml").read_text("utf-8"))
        if "train" in overlay:
            overlay["train"] |= {"save_every": overlay["train"]["steps"], "rows_per_forward": 24}  # memory there is
        for one in less:
            name, _, value = one.partition("=")
            section, _, key = name.partition(".")
            overlay.setdefault(section, {})[key] = yaml.load(value)
        with (folder / "params" / f"{variant}.yaml").open("w", encoding="utf-8") as file:
            yaml.dump(overlay, file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--alone", action="store_true", help="train the raw model too")
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.KEY=VALUE", help="other parameters, for a short trial")
    parser.add_argument("--waves", type=int, nargs="+", default=[1, 2, 3, 4], help="which groups of stages; those before them have run")
    asked = parser.parse_args()
    began, well = time.monotonic(), True
    lay_out(asked.folder, asked.set)
    for number, steps in enumerate(waves(asked.seeds, asked.alone), start=1):
        if number in asked.waves:
            well &= run(asked.folder, steps, began)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
