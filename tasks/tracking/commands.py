"""What `rlver mlflow` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from components.settings import load_settings
from tasks import dvc, records
from tasks.environment import shown
from tasks.tracking.recorder import MlflowRecorder, log_pipeline
from tasks.tracking.store import opened, readable
from tasks.tracking.traces import log_file


def sync(root: Path, uri: str) -> str:
    """Send what MLflow has missed: the spool, and results on disk that no run holds; one line about it. Raises TrackingUnavailable."""
    options = load_settings(root / "params.yaml").tracking
    with MlflowRecorder(root, uri, options.log_models, traces=options.traces) as recorder:
        waiting = len(recorder.spool.entries())
        recorder.send()
        lock = dvc.locked(root)
        before = len(recorder.runs)
        stages = [records.read(root, stage, lock) for stage in lock]
        log_pipeline(recorder, [stage for stage in stages if not recorder.spool.has(stage.name, stage.digest)])
        added = len(recorder.runs) - before
    left = len(recorder.spool.entries())
    return f"MLflow {shown(uri)}: {waiting} runs were waiting, {left} still are; {added} runs added for results that none held"


def trace(root: Path, uri: str, transcripts: Sequence[Path], most: int | None) -> Iterator[str]:
    """Log transcript files as sessions of traces, a line each. Raises BadFile and TrackingUnavailable."""
    with readable():
        store = opened(root, uri)
        for path in transcripts:
            yield f"{path}: {len(log_file(store, path, run=None, most=most))} dialogues are sessions of the experiment's traces"
