"""What DVC experiments found, in MLflow: each is a pipeline run of its own, with the curves, scores and models of its stages."""

from __future__ import annotations

from pathlib import Path

from rlver.tasks.graph import dvc, experiments
from rlver.tasks.graph import lock as integrity
from rlver.tasks.tracking import records
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline
from rlver.tasks.tracking.store import TrackingUnavailable, open_store, readable

EXPERIMENT = "dvc_experiment"  # the tag of its runs


def log_experiment(root: Path, uri: str, name: str, began_from: str | None = None) -> str:
    """Log what no run holds yet of an experiment's stages; one line about it. Raises SweepError and TrackingUnavailable.

    `began_from`: the commit from which that of this name began; default: the one that is checked out.

    Where that breaks off, its files stay in scratch/, and the next call goes on with them.
    """
    with readable():
        open_store(root, uri)  # files of a local database belong to this folder, not to the experiment's
    with experiments.laid_out(root, name, began_from) as folder, MlflowRecorder(folder, uri, tags={EXPERIMENT: name}) as recorder:
        lock = dvc.locked(folder)
        there = [stage for stage in lock if all((folder / path).exists() for path in lock[stage].outputs)]
        sound = [stage for stage in there if not integrity.differing(folder, lock[stage].outputs)]
        try:
            held = log_pipeline(recorder, [records.read(folder, stage, lock) for stage in sound])
        finally:
            recorder.end()  # as it did: whatever becomes of its way to MLflow, the experiment ended well
        recorder.send()
        if recorder.spool.entries():
            raise TrackingUnavailable("MLflow: another process is sending what is left")
        added = len(set(held.values()) & set(recorder.runs.values()))
    gone, other = len(lock) - len(there), len(there) - len(sound)
    missing = f"; {gone} left out, their files are not in DVC's cache" if gone else ""
    missing += f"; {other} left out, DVC's cache of their files is damaged" if other else ""
    return f"{name}: {len(held)} stages are in MLflow, {added} of them logged now{missing}"
