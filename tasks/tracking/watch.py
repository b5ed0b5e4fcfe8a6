"""While a stage works: the rows of its curves and the load of the machine go into the spool. The stage knows nothing of it.

Training writes its curves to files anyway; this thread of another process reads them. So nothing that happens to the tracker can reach
the training.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlver.components.domain.files import read_jsonl
from rlver.tasks.tracking.records import metric_name
from rlver.tasks.tracking.spool import SpoolEntry, SpoolReading, now_ms

LOOK_EVERY_S = 5.0
LOAD_EVERY = 2  # looks
SCRATCH = "scratch"


class StageWatch(threading.Thread):
    """Watches one stage from `start` to `stop`."""

    def __init__(self, root: Path, entry: SpoolEntry, every_s: float = LOOK_EVERY_S) -> None:
        super().__init__(name=f"watch {entry.identity}", daemon=True)
        self._root, self.entry, self._every_s = root, entry, every_s
        self._stopped = threading.Event()
        self._seen: set[tuple[str, int]] = set()
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
        """Rows that were not there before, of curves that somebody has written to since the stage began."""
        for path in sorted((self._root / SCRATCH).glob(f"{self._variant}-*/curves/*.jsonl")):
            ours = re.fullmatch(f"{re.escape(str(self._variant))}-[0-9a-f]{{12}}", path.parts[-3])
            if not ours or path.stat().st_mtime < self._began_s:
                continue
            for _, row in read_jsonl(path):
                for name, value in row.items():
                    key = metric_name(f"{path.stem}/{name}"), int(row["step"])
                    if name != "step" and value is not None and key not in self._seen:
                        self._seen.add(key)
                        yield SpoolReading(*key, float(value), now_ms())


def machine_load() -> Iterator[list[SpoolReading]]:
    """What MLflow's own monitors measure (processor, memory, disk, network, GPUs), under the names that its pages know."""
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
    from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
    from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
    from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

    monitors: list[Any] = [kind() for kind in (CPUMonitor, DiskMonitor, NetworkMonitor)]
    with contextlib.suppress(ImportError, RuntimeError):  # no GPU, or no library that reads it
        gpus: Any = GPUMonitor
        monitors.append(gpus())
    step = 0
    while True:
        readings = []
        for monitor in monitors:
            monitor.collect_metrics()
            readings += [
                SpoolReading(f"system/{name}", step, float(value), now_ms()) for name, value in monitor.aggregate_metrics().items()
            ]
            monitor.clear_metrics()
        yield readings
        step += 1
