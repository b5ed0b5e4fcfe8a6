"""The whole project, run once for all that disturb it."""

from __future__ import annotations

import time

import pytest
from whole_project import Undisturbed, make_whole_project, outputs, running

from rlver.tasks.graph import dvc


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The whole graph, run once by nobody disturbed."""
    root = tmp_path_factory.mktemp("killed") / "project"
    make_whole_project(root)
    steps, seconds = {step.name: step for step in dvc.plan(root)}, {}
    for name in steps:
        process = running(root, name)
        began = time.monotonic()
        assert process.wait() == 0
        seconds[name] = time.monotonic() - began
    return Undisturbed(root, steps, seconds, {name: outputs(root, step) for name, step in steps.items()})
