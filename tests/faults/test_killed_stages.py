"""kill -9 at 30 moments, spread over every stage of the real graph in small: the rerun gives what an undisturbed run gave.

DVC, the shell and the stage die together, as when the machine is switched off. The moment is drawn from the time that the stage took
undisturbed, from the moment on at which DVC started it. Before each kill the stage's outputs, and DVC's cache of them, are gone, so
that nothing can be restored from there.

DVC writes dvc.lock in place. A kill in these few milliseconds leaves a part of it, which DVC refuses in one line; with the file as it was
before (`git checkout dvc.lock`) the rerun is right. `rlver run` puts it back itself: see test_damaged_workspace.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from whole_project import STAGES, Undisturbed, assert_same, outputs, remove_outputs, running, start, succeed

from rlver.tasks.graph import dvc

KILLS = 3  # in each stage
pytestmark = pytest.mark.slow


class Kill(NamedTuple):
    stage: str
    after_s: float  # from the moment at which DVC started the stage
    said: str  # by the stage until then


def test_every_stage_is_killed_and_has_something_to_compare(undisturbed: Undisturbed) -> None:
    assert set(undisturbed.steps) == set(STAGES) and KILLS * len(STAGES) == 30
    assert all(undisturbed.outputs.values())


@pytest.mark.parametrize("stage", STAGES)
def test_after_a_kill_at_any_moment_a_rerun_gives_the_right_result(
    stage: str, undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    root, step, usual_s = undisturbed.root, undisturbed.steps[stage], undisturbed.seconds[stage]
    random = Random(f"kill -9 in {stage}")
    for _ in range(KILLS):
        lock = (root / "dvc.lock").read_bytes()
        kill = killed(root, step, usual_s, random)
        halved = refused(root, stage)
        if halved:
            (root / "dvc.lock").write_bytes(lock)
        succeed(root, "repro", "--single-item", stage)
        assert_same(outputs(root, step), undisturbed.outputs[stage], kill)
        with capsys.disabled():
            how = " once dvc.lock was put back" if halved else ""
            print(f"\n{stage:22} killed after {kill.after_s:4.1f} of {usual_s:4.1f} s: right result{how}", end="")


def test_after_all_kills_a_whole_run_leaves_nothing_to_do(undisturbed: Undisturbed) -> None:
    succeed(undisturbed.root, "repro")
    assert dvc.changed(undisturbed.root) == {}


def killed(root: Path, step: dvc.Stage, usual_s: float, random: Random) -> Kill:
    """Run the stage from nothing and kill it; drawn again where it was over before."""
    while True:
        forget(root, step)
        after_s = random.uniform(0.0, 1.0) * usual_s
        process = running(root, step.name)
        try:
            process.wait(timeout=after_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Kill(step.name, after_s, (root / "said.log").read_text(errors="replace")[-200:])


def refused(root: Path, stage: str) -> bool:
    """Whether DVC refuses its dvc.lock, and says so."""
    (root / "said.log").unlink()
    return start(root, "status", stage).wait() != 0 and "dvc.lock' " in (root / "said.log").read_text(errors="replace")


def forget(root: Path, step: dvc.Stage) -> None:
    """No outputs, and no cache to restore them from; what a training has saved in scratch/ goes too, or it would have nothing to do."""
    shutil.rmtree(root / ".dvc" / "cache", ignore_errors=True)
    shutil.rmtree(root / "scratch", ignore_errors=True)
    remove_outputs(root, step)
