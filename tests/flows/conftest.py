"""One Prefect server for all flow tests of the run, and what flows log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        run = getattr(record, "task_run_name", None) or "flow"
        self.lines.append(f"{run}: {record.getMessage()}" + ("\nTraceback" if record.exc_info else ""))


@pytest.fixture
def said(prefect_server: None) -> Iterator[list[str]]:
    """The log lines of flow and task runs, each after its task's name or `flow`."""
    from prefect.logging.configuration import setup_logging

    setup_logging()
    handler = _Lines()
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler.lines
    for logger in loggers:
        logger.removeHandler(handler)
