"""One finished run for all tests of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_run import write_run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only: 41 dialogues of two variants. Tests that change files write their own run."""
    return write_run(tmp_path_factory.mktemp("run"))
