"""A finished project for every test that asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracked_project import make


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return make(tmp_path / "project")
