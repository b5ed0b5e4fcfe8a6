"""What a pipeline run leaves in MLflow, while it runs: a tracker that is down or slow is a warning, never a failed or a late stage.

The run writes to the spool and goes on; one thread sends. The only waiting is bounded: for the run that holds a cached result, and at the
very end for what is still being sent. A stage knows nothing of it: training writes its curves to files anyway, and a thread of another
process reads them.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rlver.components.domain.files import read_jsonl
from rlver.tasks.graph import dvc
from rlver.tasks.tracking import records
from rlver.tasks.tracking.recorder import MlflowRecorder
from rlver.tasks.tracking.spool import SpoolEntry, SpoolReading, now_ms
from rlver.tasks.tracking.store import TrackingUnavailable

PATIENCE_S = 60.0  # for an answer, which comes after a hundred dialogues that are sent first; who has not answered once in it is not waited for again
LAST_WAIT_S, INTERRUPTED_WAIT_S = 120.0, 3.0
SEND_EVERY_S = 5.0
BACK_OFF_S = 30.0  # after a failure, unless something is asked
LATER = "what is missing is in spool/, and the next run or `rlver mlflow sync` sends it"
LOOK_EVERY_S = 5.0
LOAD_EVERY = 2  # looks
SCRATCH = "scratch"

T = TypeVar("T")


class Provenance:
    """Logs the stages of one flow run. Of a tracker's troubles it speaks once, and of each run's that cannot be sent."""

    def __init__(self, root: Path, uri: str, flow_run: str | None, logger: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        tags = {"prefect_flow_run": flow_run} if flow_run else {}
        self._root, self._logger, self._warned, self._patient = root, logger, False, True
        self._recorder = MlflowRecorder(root, uri, tags=tags)
        self._stuck: set[str] = set()  # what was said of runs that cannot be sent
        self._watches: dict[str, StageWatch] = {}
        self._questions: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue()
        self._over = threading.Event()
        self._sender = threading.Thread(target=self._send_and_answer, name="MLflow sender", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)  # Ctrl-C, or cancelled on Prefect's page
        for stage in list(self._watches):
            self.failed(stage, "interrupted" if interrupted else "the flow ended", "KILLED")
        try:
            self._recorder.end("KILLED" if interrupted else "FAILED" if kind or self._recorder.failed else "FINISHED")
            if self._recorder.spool.entries():
                self._answer("pipeline", self._ask(_nothing), INTERRUPTED_WAIT_S if interrupted else LAST_WAIT_S)
        except (OSError, ValueError) as problem:
            self._warn("pipeline", problem)
        finally:
            self._over.set()
            self._questions.put((_nothing, Future()))  # wakes the sender; what is under way is not waited for

    def begins(self, stage: str) -> str | None:
        """A stage starts to work: it is watched from now on. Its MLflow run; None where the tracker does not answer."""
        import mlflow  # noqa: F401  # the first time takes seconds, which are not the tracker's

        try:
            entry = self._recorder.begin(stage)
            self._watches[stage] = StageWatch(self._root, entry)
            self._watches[stage].start()
        except (OSError, ValueError) as error:
            self._warn(stage, error)
            return None
        run = self._ask(lambda: self._recorder.runs.get(entry.identity))
        return self._answer(stage, run, PATIENCE_S) if self._patient else None

    def failed(self, stage: str, reason: str, status: str = "FAILED") -> None:
        """A stage has failed, or could not even begin."""
        self._recorder.failed = True
        if entry := self._unwatched(stage):
            self._write(stage, lambda: self._recorder.fail(entry, reason, status))

    def of_run(self, stage: str) -> None:
        """Log a stage that has just run."""
        entry = self._unwatched(stage)

        def finish() -> None:
            lock = dvc.locked(self._root)
            if stage in lock:
                self._recorder.finish(entry or self._recorder.begin(stage), records.read(self._root, stage, lock))
            elif entry:
                entry.close("FINISHED")

        self._write(stage, finish)

    def of_cached(self, stage: str) -> str:
        """Where the result of a stage that did not run is found, as the end of a sentence; logged if no run holds it."""
        if entry := self._unwatched(stage):
            self._write(stage, lambda: entry.close("FINISHED", forget=True))
        try:
            lock = dvc.locked(self._root)
            if not self._patient or stage not in lock:
                return ""
            record = records.read(self._root, stage, lock)
        except (OSError, ValueError) as error:
            self._warn(stage, error)
            return ""
        run = self._answer(stage, self._ask(lambda: self._recorder.holder(record)), PATIENCE_S)
        if run is None and self._patient and not self._recorder.spool.has(stage, record.digest):
            self._write(stage, lambda: self._recorder.finish(self._recorder.begin(stage), record))
        if run is None and self._patient:
            return "; its result is on its way to MLflow"
        return f"; its result is in MLflow run {run}" if run else ""

    def _unwatched(self, stage: str) -> SpoolEntry | None:
        """The entry of a stage that was watched until now; None for one that was not."""
        watch = self._watches.pop(stage, None)
        if watch is None:
            return None
        watch.stop()
        return watch.entry

    def _write(self, stage: str, write: Callable[[], None]) -> None:
        """Write to the spool, and have it sent."""
        try:
            write()
        except (OSError, ValueError) as error:
            self._warn(stage, error)
        else:
            self._ask(_nothing)

    def _ask(self, question: Callable[[], T]) -> Future[T]:
        """The answer to come. What is in the spool goes first, so that a run that was not sent yet is not logged twice."""
        answer: Future[T] = Future()
        self._questions.put((question, answer))
        if not self._sender.is_alive():
            self._sender.start()
        return answer

    def _send_and_answer(self) -> None:
        """Send what is in the spool every few seconds, and answer questions in between. A process that ends does not wait for it."""
        wait_s = SEND_EVERY_S
        while True:
            try:
                question, answer = self._questions.get(timeout=wait_s)
            except queue.Empty:
                question, answer = _nothing, Future()
            if self._over.is_set():
                return
            try:
                for trouble in self._recorder.send_what_can_be():  # with one entry; the tracker is there
                    if str(trouble) not in self._stuck:
                        self._stuck.add(str(trouble))
                        self._logger.warning("%s", trouble)
                answer.set_result(question())
            except (TrackingUnavailable, ValueError, OSError) as error:
                answer.set_exception(error)
            except Exception as error:  # whoever waits must hear of it, whatever it is; a run does not end by it
                answer.set_exception(TrackingUnavailable(f"MLflow: {type(error).__name__}: {error}"))
            wait_s = BACK_OFF_S if answer.exception() else SEND_EVERY_S

    def _answer(self, stage: str, answer: Future[T], wait_s: float) -> T | None:
        try:
            return answer.result(timeout=wait_s)
        except TimeoutError:
            self._warn(stage, TrackingUnavailable(f"MLflow did not answer within {wait_s:.0f} s"))
        except (TrackingUnavailable, ValueError, OSError) as error:
            self._warn(stage, error)
        self._patient = False
        return None

    def _warn(self, stage: str, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._logger.warning("%s: %s; %s", stage, error, LATER)


def _nothing() -> None: ...


class StageWatch(threading.Thread):
    """From `start` to `stop` the rows of one stage's curves and the load of the machine go into its spool entry."""

    def __init__(self, root: Path, entry: SpoolEntry, every_s: float = LOOK_EVERY_S) -> None:
        super().__init__(name=f"watch {entry.identity}", daemon=True)
        self._root, self.entry, self._every_s = root, entry, every_s
        self._stopped = threading.Event()
        self._seen: dict[tuple[str, int], Any] = {}  # the value that was read last
        head = entry.head
        self._variant, self._began_s = head.tags.get("variant"), head.began_ms / 1000

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        looks = 0
        load = machine_load()
        while not self._stopped.wait(self._every_s):
            readings = [*self._new_rows(), *(next(load) if looks % LOAD_EVERY == 0 else ())]
            looks += 1
            try:
                self.entry.add(readings)
            except OSError:  # a full disk is the stage's own trouble, and it will say so
                return

    def _new_rows(self) -> Iterator[SpoolReading]:
        """Values that were not there before, of curves that somebody has written to since the stage began. A retry writes some anew."""
        for path in sorted((self._root / SCRATCH).glob(f"{self._variant}-*/curves/*.jsonl")):
            ours = re.fullmatch(f"{re.escape(str(self._variant))}-[0-9a-f]{{12}}", path.parts[-3])
            if not ours or path.stat().st_mtime < self._began_s:
                continue
            for _, row in read_jsonl(path):
                for name, value in row.items():
                    key = records.metric_name(f"{path.stem}/{name}"), int(row["step"])
                    if name != "step" and value is not None and self._seen.get(key) != value:
                        self._seen[key] = value
                        yield SpoolReading(*key, float(value), now_ms())


def machine_load() -> Iterator[list[SpoolReading]]:
    """What the machine does, as MLflow's own monitors measure and name it (MLflow itself measures only for a run open in this process).

    Readings at each `next`, their step counting from 0; what is sent and received counts from the first. GPUs only where pynvml is.
    """
    from mlflow.system_metrics.metrics import cpu_monitor, disk_monitor, gpu_monitor, network_monitor

    logging.getLogger(gpu_monitor.__name__).setLevel(logging.ERROR)  # a card that does not tell all of it says so at each reading
    monitors: list[Any] = [cpu_monitor.CPUMonitor(), disk_monitor.DiskMonitor(), network_monitor.NetworkMonitor()]  # type: ignore[no-untyped-call]
    with suppress(ImportError, RuntimeError):  # no library, or no card
        monitors.append(gpu_monitor.GPUMonitor())  # type: ignore[no-untyped-call]
    for step in count():
        values: dict[str, float] = {}
        for monitor in monitors:
            monitor.collect_metrics()
            values |= monitor.aggregate_metrics()
            monitor.clear_metrics()
        yield [SpoolReading(f"system/{name}", step, round(value, 1), now_ms()) for name, value in values.items()]
