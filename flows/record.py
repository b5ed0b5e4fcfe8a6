"""What a pipeline run leaves in MLflow, seen from the flow: a tracker that is down or slow is a warning, never a failed or a late stage.

The flow writes to the spool and goes on; a thread sends. The only waiting is bounded: for the run that holds a cached result, and at the
very end for what is still being sent.
"""

from __future__ import annotations

import concurrent.futures
import logging
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlver.components.settings.sections import TrackingSettings
from rlver.components.settings.settings import SettingsError, load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.runtime.environment import Addresses
from rlver.tasks.tracking import MlflowRecorder, TrackingUnavailable, records
from rlver.tasks.tracking.recorder import Sender
from rlver.tasks.tracking.watch import StageWatch

PATIENCE_S = 10.0  # for an answer; who has not answered once in this time is not waited for again
LAST_WAIT_S, INTERRUPTED_WAIT_S = 120.0, 3.0
LATER = "what is missing is in spool/, and the next run or `rlver mlflow sync` sends it"


class Provenance:
    """Logs the stages of one flow run. Of a tracker's troubles it speaks once."""

    def __init__(self, root: Path, where: Addresses, flow_run: str | None, logger: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        tags = {"prefect_flow_run": flow_run} if flow_run else {}
        options = _options(root)
        self._root, self._logger, self._warned, self._patient = root, logger, False, True
        self._recorder = MlflowRecorder(root, where.tracking_uri, options.log_models, tags, options.traces)
        self._sender = Sender(self._recorder)
        self._watches: dict[str, StageWatch] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)  # Ctrl-C, or cancelled on Prefect's page
        for stage in list(self._watches):
            self.failed(stage, "interrupted" if interrupted else "the flow ended", "KILLED")
        try:
            self._recorder.end("KILLED" if interrupted else "FAILED" if kind or self._recorder.failed else "FINISHED")
            if self._recorder.spool.entries():
                self._answer("pipeline", self._sender.ask(lambda: None), INTERRUPTED_WAIT_S if interrupted else LAST_WAIT_S)
        except (OSError, ValueError) as problem:
            self._warn("pipeline", problem)
        finally:
            self._sender.stop()

    def begins(self, stage: str) -> None:
        """A stage starts to work: it is watched from now on."""
        try:
            self._watches[stage] = StageWatch(self._root, self._recorder.begin(stage))
            self._watches[stage].start()
        except (OSError, ValueError) as error:
            self._warn(stage, error)

    def failed(self, stage: str, reason: str, status: str = "FAILED") -> None:
        """A stage has failed, or could not even begin."""
        self._recorder.stage_failed()
        if watch := self._watches.pop(stage, None):
            watch.stop()
            self._try(stage, lambda: self._recorder.fail(watch.entry, reason, status))

    def of_run(self, stage: str) -> None:
        """Log a stage that has just run."""
        watch = self._watches.pop(stage, None)
        if watch:
            watch.stop()
        self._try(stage, lambda: self._finish(stage, watch))

    def of_cached(self, stage: str) -> str:
        """Where the result of a stage that did not run is found, as the end of a sentence; logged if no run holds it."""
        if watch := self._watches.pop(stage, None):
            watch.stop()
            self._try(stage, lambda: self._recorder.forget(watch.entry))
        try:
            lock = dvc.locked(self._root)
            if not self._patient or stage not in lock:
                return ""
            record = records.read(self._root, stage, lock)
        except (OSError, ValueError) as error:
            self._warn(stage, error)
            return ""
        run = self._answer(stage, self._sender.ask(lambda: self._recorder.holder(record)), PATIENCE_S)
        if run is None and self._patient and not self._recorder.spool.has(stage, record.digest):
            self._try(stage, lambda: self._recorder.finish(self._recorder.begin(stage), record))
        if run is None and self._patient:
            return "; its result is on its way to MLflow"
        return f"; its result is in MLflow run {run}" if run else ""

    def _finish(self, stage: str, watch: StageWatch | None) -> None:
        lock = dvc.locked(self._root)
        if stage in lock:
            self._recorder.finish(watch.entry if watch else self._recorder.begin(stage), records.read(self._root, stage, lock))

    def _try(self, stage: str, write: Any) -> None:
        """Write to the spool, and have it sent."""
        try:
            write()
        except (OSError, ValueError) as error:
            self._warn(stage, error)
        else:
            self._sender.ask(lambda: None)

    def _answer(self, stage: str, answer: concurrent.futures.Future[Any], wait_s: float) -> Any:
        try:
            return answer.result(timeout=wait_s)
        except concurrent.futures.TimeoutError:
            self._warn(stage, TrackingUnavailable(f"MLflow did not answer within {wait_s:.0f} s"))
        except (TrackingUnavailable, ValueError, OSError) as error:
            self._warn(stage, error)
        self._patient = False
        return None

    def _warn(self, stage: str, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._logger.warning("%s: %s; %s", stage, error, LATER)


def _options(root: Path) -> TrackingSettings:
    try:
        return load_settings(root / "params.yaml").tracking
    except SettingsError:
        return TrackingSettings(log_models="full", traces=0)  # the stage that reads the same file says what is wrong with it
