"""What the machine does while a stage runs, as MLflow's own monitors measure and name it. MLflow measures only for a run that is open in this
process; here the tracker may be away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

from rlver.tasks.tracking.spool import SpoolReading, now_ms


def machine_load() -> Iterator[list[SpoolReading]]:
    """Readings at each `next`, their step counting from 0; what is sent and received counts from the first. GPUs only where pynvml is."""
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
