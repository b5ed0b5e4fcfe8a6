"""What MLflow gets apart from pipeline runs: `rlver mlflow sync` and `trace`, and what was made outside the graph, as a run of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rlver.components.settings.settings import load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.runtime.environment import shown
from rlver.tasks.tracking import records
from rlver.tasks.tracking.filling import fill
from rlver.tasks.tracking.recorder import MlflowRecorder, log_pipeline
from rlver.tasks.tracking.records import StageRecord
from rlver.tasks.tracking.store import open_store, readable
from rlver.tasks.tracking.traces import log_file


def log_report(
    root: Path, uri: str, name: str, digest: str, parameters: Mapping[str, str], metrics: Mapping[str, float], files: Iterable[Path]
) -> str:
    """Log it, unless a run holds a report of this name and digest already; the run. Raises TrackingUnavailable."""
    with readable():
        store = open_store(root, uri)
        held = store.runs(f"tags.stage = '{name}'", f"tags.outputs = '{digest}'", "attributes.status = 'FINISHED'", most=1)
        if held:
            return str(held[0].info.run_id)
        tags = {"mlflow.source.name": f"rlver {name}", "stage": name, "outputs": digest}
        run = str(store.client.create_run(store.experiment, run_name=name, tags=tags).info.run_id)
        artifacts = tuple(records.stamped(file, file.name, "") for file in files)
        record = StageRecord(name=name, digest=digest, parameters=parameters, metrics=metrics, artifacts=artifacts)
        fill(store, run, record, "reference", dialogues=0)
        store.client.set_terminated(run)
        return run


def sync(root: Path, uri: str) -> str:
    """Send what MLflow has missed: the spool, and results on disk that no run holds; one line about it. Raises TrackingUnavailable.

    A stage of which files are missing, as in a clone, is left out: its run would stay empty.
    """
    load_settings(root / "params.yaml")  # raises for what is wrong with it
    with MlflowRecorder(root, uri) as recorder:
        waiting = len(recorder.spool.entries())
        recorder.send()
        lock = dvc.locked(root)
        before = len(recorder.runs)
        here = [stage for stage in lock if all((root / path).exists() for path in lock[stage].outputs)]
        stages = [records.read(root, stage, lock) for stage in here]
        log_pipeline(recorder, [stage for stage in stages if not recorder.spool.has(stage.name, stage.digest)])
        added = len(recorder.runs) - before
    left = len(recorder.spool.entries())
    gone = len(lock) - len(here)
    missing = f"; {gone} stages left out, their files are not here: `dvc pull` brings them" if gone else ""
    return f"MLflow {shown(uri)}: {waiting} runs were waiting, {left} still are; {added} runs added for results that none held{missing}"


def trace(root: Path, uri: str, transcripts: Sequence[Path], most: int | None) -> Iterator[str]:
    """Log transcript files as sessions of traces, a line each. Raises BadFile and TrackingUnavailable."""
    with readable():
        store = open_store(root, uri)
        for path in transcripts:
            yield f"{path}: {len(log_file(store, path, run=None, most=most))} dialogues are sessions of the experiment's traces"
