"""What a pipeline run leaves in MLflow, seen from the flow: a tracker that fails is a warning, never a failed pipeline."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from components.settings import SettingsError, load_settings
from tasks import dvc, records
from tasks.environment import Addresses
from tasks.tracking import LogModels, MlflowRecorder, TrackingUnavailable, log_pipeline


class Provenance:
    """Logs the stages of one flow run. After the first failure of the tracker it says so once and stays silent."""

    def __init__(self, root: Path, where: Addresses, flow_run: str | None, logger: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        tags = {"prefect_flow_run": flow_run} if flow_run else {}
        self._root, self._logger, self._available = root, logger, True
        self._recorder = MlflowRecorder(root, where.tracking_uri, _log_models(root), tags)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._recorder.__exit__(kind, error, trace)

    def failed(self) -> None:
        self._recorder.stage_failed()

    def of_run(self, stage: str) -> None:
        """Log a stage that has just run."""
        self._log(stage, ran=True)

    def of_cached(self, stage: str) -> str:
        """Where the result of a stage that did not run is found, as the end of a sentence; logged now if no run holds it."""
        run = self._log(stage, ran=False)
        return f"; its result is in MLflow run {run}" if run else ""

    def _log(self, stage: str, ran: bool) -> str | None:
        lock = dvc.locked(self._root)
        if not self._available or stage not in lock:
            return None
        try:
            record = records.read(self._root, stage, lock)
            return self._recorder.record(record) if ran else log_pipeline(self._recorder, [record])[stage]
        except (TrackingUnavailable, ValueError) as error:
            self._available = False
            self._logger.warning("%s: %s; the next run logs what is missing", stage, error)
            return None


def _log_models(root: Path) -> LogModels:
    try:
        return load_settings(root / "params.yaml").tracking.log_models
    except SettingsError:
        return "full"  # the stage that reads the same file says what is wrong with it
