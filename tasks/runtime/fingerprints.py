"""Run identity: an interrupted run is resumed only if settings, data and code are unchanged.

A change of code counts like a change of a number: half a result of each would be a result of neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlver import components
from rlver.components.domain.files import files_in, read_json, write_text_atomically
from rlver.components.domain.registry import ALGORITHMS, REWARDS
from rlver.components.settings.settings import Settings

ROOT = Path(components.__file__).resolve().parents[1]
_DIALOGUES = (
    "components/domain",
    "components/personas",
    "components/policy",
    "components/rollout",
    "components/users",
    "components/weights",
    "tasks/runtime/assembly.py",
    "tasks/runtime/serving",
)
# The code that decides what these stages make: their dependencies in every dvc.yaml, held equal by tests/test_architecture.py.
CODE = {
    "converse": (*_DIALOGUES, "tasks/runtime/conversing.py", "tasks/stages/converse.py"),
    "train": (*_DIALOGUES, "components/training", "tasks/runtime/verl_process.py", "tasks/stages/train.py"),
}
LENT_TO_VERL = ("components/adapters/verl.py", "components/adapters/verl_dataset.py")
DIGITS = 12
RECORD = "began_with.json"
# Settings that stop a run or spare memory and time, and change nothing of what it learns. `train.processes` counts as `processes`.
DECIDES_NOTHING = {
    "rollout.concurrency",
    "rollout.max_failure_rate",
    "rollout.max_logprob_gap",
    "rollout.server_gpus",
    "rollout.server_memory_share",
    "train.gradient_checkpointing",
    "train.max_cut_off_rate",
    "train.max_repeat_rate",
    "train.min_entropy",
    "train.processes",
    "train.verl_python",  # the version of verl counts
    "train.verl_recipe",  # what is in it counts
}


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """Hex digits of what each file holds, by its name as given, this project's own from its root on."""
    return {str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path): _digest(path) for path in sorted(set(paths))}


def code_of(stage: str) -> list[Path]:
    """The files of its CODE: modules, prompts, and the tables they read."""
    places = [ROOT / name for name in CODE[stage]]
    return [file for place in places for file in (files_in(place) if place.is_dir() else [place])]


def user_files(settings: Settings) -> list[Path]:
    """What the users read beside the code: of a distilled appraiser, its folder."""
    folders = [part.kind.folder(part.which) for part in settings.simulator.parts]
    return [file for folder in folders if folder for file in files_in(folder)]


def packages_of_users(settings: Settings) -> dict[str, str]:
    """Name and version of each package that brings a kind of user which the settings choose, by the kind; empty for this project's own."""
    brought = {f"{part.registry.noun} {part.name}": part.registry.origin(part.name) for part in settings.simulator.parts}
    return {what: origin for what, origin in brought.items() if origin}


def packages_of_training(settings: Settings) -> dict[str, str]:
    """The same of all kinds that training uses: users, reward and algorithm."""
    others = ((REWARDS, settings.reward.kind), (ALGORITHMS, settings.train.algorithm))
    return packages_of_users(settings) | {
        f"{registry.noun} {name}": origin for registry, name in others if (origin := registry.origin(name))
    }


def training_identity(settings: Settings, personas: Path, base: Path, processes: int) -> dict[str, Any]:
    """Everything that decides what is trained, by name: settings, number of processes, personas, base, code and what it reads."""
    parts = settings.model_dump(mode="json", include={"seed", "simulator", "policy", "rollout", "reward", "train"})
    named = {"seed": parts.pop("seed")} | {f"{section}.{key}": value for section, keys in parts.items() for key, value in keys.items()}
    files = digests([personas, *files_in(base), *code_of("train"), *user_files(settings), *_files_of_engine(settings)])
    kept = {name: value for name, value in named.items() if name not in DECIDES_NOTHING}
    return kept | {"processes": processes} | packages_of_training(settings) | files


def _files_of_engine(settings: Settings) -> list[Path]:
    """What an engine in an environment of its own reads: of verl its recipe and our part in it."""
    recipe = Path(settings.train.verl_recipe)
    return [*files_in(recipe), *(ROOT / name for name in LENT_TO_VERL)] if settings.train.engine == "verl" else []


def check_identity(work: Path, identity: Mapping[str, Any]) -> None:
    """Write down what the run in `work` is; raise ValueError, by name, if it was begun as something else."""
    record = work / RECORD
    if not record.is_file():
        write_text_atomically(record, json.dumps(identity, indent=2) + "\n")
    began = read_record(record)
    for name in sorted(began.keys() | identity.keys()):
        if began.get(name) != identity.get(name):
            raise ValueError(
                f"{work} was begun with {name} = {began.get(name)!r}, now it is {identity.get(name)!r}; delete the folder to start over"
            )


def read_record(record: Path) -> dict[str, Any]:
    began: dict[str, Any] = read_json(record, f"delete {record.parent} to start over")
    return began


def half_done(work: Path, identity: Mapping[str, Any]) -> Iterator[str]:
    """A line for each training of the same name that was interrupted and that `work` does not go on with: what differs."""
    from rlver.tasks.runtime.checkpoints import step_of

    name = work.name.rpartition("-")[0]
    for record in sorted(work.parent.glob(f"{name}-{'[0-9a-f]' * DIGITS}/{RECORD}")):
        began = read_record(record)
        kept = [*record.parent.glob("checkpoints/checkpoint-*"), *record.parent.glob("verl/checkpoints/global_step_*")]
        done = max(map(step_of, kept), default=0)
        wanted = began.get("train.steps", 0) * began.get("train.updates_per_batch", 0)  # 0: of a version that named them otherwise
        changed = [key for key in sorted(began.keys() | identity.keys()) if began.get(key) != identity.get(key)]
        if 0 < done < wanted and changed:
            others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            yield (
                f"not going on with {record.parent} (step {done} of {wanted}): it was begun with "
                f"{changed[0]} = {began.get(changed[0])!r}, now it is {identity.get(changed[0])!r}{others}; put that back to go on with it"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
