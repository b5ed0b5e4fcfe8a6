"""The project's own graph, run once for all that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_graph import copy_graph, repro


@pytest.fixture(scope="session")
def root_has_run(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where plain `dvc repro` has run, with the paper run beside it, and what DVC said; for copies only."""
    root = tmp_path_factory.mktemp("graph")
    copy_graph(repository_root, root)
    return root, repro(root)
