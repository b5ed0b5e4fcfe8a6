"""Curves that are written anew while a stage is watched."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

import pytest

from rlver.components.training.curves import CurveFile
from rlver.tasks.graph import dvc
from rlver.tasks.graph.dvc import LockedStage
from rlver.tasks.tracking import records
from rlver.tasks.tracking.provenance import Provenance, StageWatch
from rlver.tasks.tracking.recorder import MlflowRecorder


def test_after_a_retry_the_last_point_of_a_curve_is_that_of_its_file(tmp_path: Path, tracking_uri: str) -> None:
    """Killed after step 5, a stage goes on from step 3: its steps 4 and 5 have other values. Step 6 was never seen while it ran."""
    from mlflow import MlflowClient

    recorder = MlflowRecorder(tmp_path, tracking_uri, "reference")
    entry = recorder.begin("train@v")
    curves = CurveFile(tmp_path / "scratch" / f"v-{'0' * 12}" / "curves" / "train")
    watch = StageWatch(tmp_path, entry, every_s=3600)
    for step in range(1, 6):
        curves.record(step, {"loss": float(step)})
    entry.add(watch._new_rows())
    assert list(watch._new_rows()) == []
    curves.keep_until(3)
    curves.record(4, {"loss": 104.0})
    entry.add(watch._new_rows())
    for step in (5, 6):
        curves.record(step, {"loss": 100.0 + step})
    (tmp_path / "logs" / "v").mkdir(parents=True)
    shutil.copy(curves.path.with_suffix(".csv"), tmp_path / "logs" / "v")
    time.sleep(0.002)  # MLflow counts milliseconds
    recorder.finish(entry, records.read(tmp_path, "train@v", {"train@v": LockedStage("train@v", {}, {}, {"logs/v": "c" * 32 + ".dir"})}))
    recorder.send()
    found = MlflowClient(tracking_uri=tracking_uri).get_metric_history(recorder.runs[entry.identity], "train/loss")
    last = {point.step: point.value for point in sorted(found, key=lambda point: point.timestamp)}
    assert last == {1: 1.0, 2: 2.0, 3: 3.0, 4: 104.0, 5: 105.0, 6: 106.0}
    assert len(found) == 6 + 2, "nothing else is there twice"


def test_a_stage_that_the_lock_does_not_have_ends_its_run(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setattr(dvc, "locked", lambda _root: {})
    with Provenance(tmp_path, tracking_uri, None, logging.getLogger("flow")) as provenance:
        run = provenance.begins("train@v")
        provenance.of_run("train@v")
    assert run and MlflowClient(tracking_uri=tracking_uri).get_run(run).info.status == "FINISHED"
