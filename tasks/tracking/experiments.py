"""What DVC experiments found, in MLflow: each is a pipeline run of its own, with the curves, scores and models of its stages."""

from __future__ import annotations

from pathlib import Path

from rlver.tasks.graph import dvc, experiments
from rlver.tasks.tracking import records
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline
from rlver.tasks.tracking.store import open_store, readable

EXPERIMENT = "dvc_experiment"  # the tag of its runs


def log_experiment(root: Path, uri: str, name: str) -> str:
    """Log what no run holds yet of an experiment's stages; one line about it. Raises SweepError and TrackingUnavailable.

    Where that breaks off, its files stay in scratch/, and the next call goes on with them.
    """
    with readable():
        open_store(root, uri)  # files of a local database belong to this folder, not to the experiment's
    with experiments.laid_out(root, name) as folder, MlflowRecorder(folder, uri, tags={EXPERIMENT: name}) as recorder:
        lock = dvc.locked(folder)
        there = [stage for stage in lock if all((folder / path).exists() for path in lock[stage].outputs)]
        held = log_pipeline(recorder, [records.read(folder, stage, lock) for stage in there])
        added = len(set(held.values()) & set(recorder.runs.values()))
    missing = f"; {len(lock) - len(there)} left out, their files are not in DVC's cache" if len(there) < len(lock) else ""
    return f"{name}: {len(held)} stages are in MLflow, {added} of them logged now{missing}"
