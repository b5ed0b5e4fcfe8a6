"""What the machine does while a stage runs: processor, memory, disk, network and GPUs, under the names that MLflow's page of system metrics
knows. MLflow measures only for a run that is open in this process; here the tracker may be away.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psutil

from rlver.tasks.tracking.spool import SpoolReading, now_ms

_MEGABYTE = 1e6  # as MLflow counts


def machine_load() -> Iterator[list[SpoolReading]]:
    """Readings at each `next`, their step counting from 0; what is sent and received counts from the first. GPUs only where pynvml is."""
    gpus = _gpus()
    began = _network()
    step = 0
    while True:
        network = {name: value - began[name] for name, value in _network().items()}
        values = {**_processor_and_memory(), **_disk(), **network, **gpus()}
        yield [SpoolReading(f"system/{name}", step, round(value, 1), now_ms()) for name, value in values.items()]
        step += 1


def _processor_and_memory() -> dict[str, float]:
    memory = psutil.virtual_memory()
    return {
        "cpu_utilization_percentage": psutil.cpu_percent(),
        "system_memory_usage_megabytes": memory.used / _MEGABYTE,
        "system_memory_usage_percentage": memory.used / memory.total * 100,
    }


def _disk() -> dict[str, float]:
    disk = psutil.disk_usage(os.sep)
    return {
        "disk_usage_percentage": disk.percent,
        "disk_usage_megabytes": disk.used / _MEGABYTE,
        "disk_available_megabytes": disk.free / _MEGABYTE,
    }


def _network() -> dict[str, float]:
    passed = psutil.net_io_counters()
    return {"network_receive_megabytes": passed.bytes_recv / _MEGABYTE, "network_transmit_megabytes": passed.bytes_sent / _MEGABYTE}


def _gpus() -> Callable[[], dict[str, float]]:
    """What reads the NVIDIA GPUs; it reads nothing where there is none, or no library (nvidia-ml-py) to ask."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        return dict
    except pynvml.NVMLError:
        return dict
    handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]

    def readings() -> dict[str, float]:
        found: dict[str, float] = {}
        for number, handle in enumerate(handles):
            try:
                memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
                found[f"gpu_{number}_memory_usage_percentage"] = memory.used / memory.total * 100
                found[f"gpu_{number}_memory_usage_megabytes"] = memory.used / _MEGABYTE
                found[f"gpu_{number}_utilization_percentage"] = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
                watts = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
                found[f"gpu_{number}_power_usage_watts"] = watts
                found[f"gpu_{number}_power_usage_percentage"] = watts * 1e5 / pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)
            except pynvml.NVMLError:
                continue  # a card that does not tell this much
        return found

    return readings
