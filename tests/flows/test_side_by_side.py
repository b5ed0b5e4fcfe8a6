"""`rlver run --jobs N` over a real DVC project whose stages wait for each other: one after the other they cannot pass."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from toy_runs import run

from rlver.tasks.graph import dvc
from rlver.tasks.runtime import environment

pytestmark = pytest.mark.usefixtures("prefect_server")

ALL_STAGES = 6
GRAPH = """
stages:
  first:
    cmd: sh part.sh first made/first.txt
    params: [seed]
    outs: [made/first.txt]
  part:
    foreach: {a0: a1, a1: a0, b0: b1, b1: b0}
    do:
      cmd: sh part.sh ${key} made/parts/${key}.txt ${item}
      deps: [made/first.txt]
      outs:
        - made/parts/${key}.txt
  last:
    cmd: sh part.sh last made/last.txt
    deps: [made/parts]
    outs: [made/last.txt]
"""
# part.sh NAME OUT OTHER…: goes on when every OTHER has been begun; fails if that never happens.
PART = """
name=$1; out=$2; shift 2
echo "start $name" >> log
touch "at-$name"
tries=0
for other; do
  until [ -e "at-$other" ]; do
    tries=$((tries + 1)); [ $tries -gt 1800 ] && { echo "error: $name never met $other" >&2; exit 1; }
    sleep 0.1
  done
done
[ -e "fail-$name" ] && { echo "error: bad luck" >&2; exit 1; }
while [ -e "hold-$name" ]; do sleep 0.1; done
mkdir -p "$(dirname "$out")"; echo "$name ${OMP_NUM_THREADS:-all}" > "$out"
echo "end $name" >> log
"""


@pytest.fixture
def wide(toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (toy / "dvc.yaml").write_text(GRAPH)
    (toy / "part.sh").write_text(PART)
    monkeypatch.delenv("OMP_NUM_THREADS")
    return toy


def log(root: Path) -> list[str]:
    """What happened since it was last asked."""
    lines = (root / "log").read_text().splitlines()
    (root / "log").unlink()
    return lines


def most_at_once(lines: list[str]) -> int:
    running = most = 0
    for line in lines:
        running += 1 if line.startswith("start ") else -1
        most = max(most, running)
    return most


def started(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.long
def test_what_does_not_need_each_other_runs_side_by_side(wide: Path, tracking_uri: str, said: list[str]) -> None:
    from mlflow import MlflowClient

    assert run(jobs=2).message.startswith(f"{ALL_STAGES} of {ALL_STAGES} stages ran: first, ")
    lines = log(wide)
    assert most_at_once(lines) == 2
    assert lines[:2] == ["start first", "end first"] and lines[-2:] == ["start last", "end last"]
    assert set(started(lines)[1:3]) == {"a0", "a1"}, "plan order among those that are ready"
    assert dvc.changed(wide) == {} and len(dvc.locked(wide)) == ALL_STAGES
    share = str(max(1, environment.cores() // 2))
    assert {path.read_text() for path in (wide / "made" / "parts").glob("*.txt")} == {
        f"{name} {share}\n" for name in ("a0", "a1", "b0", "b1")
    }
    runs = MlflowClient(tracking_uri=tracking_uri).search_runs(["1"])
    (parent,) = (one for one in runs if one.info.run_name.startswith("pipeline"))
    children = {one.info.run_name for one in runs if one.data.tags.get("mlflow.parentRunId") == parent.info.run_id}
    assert children == {step.name for step in dvc.plan(wide)}
    assert {one.info.status for one in runs} == {"FINISHED"}
    assert run(jobs=2).message == f"0 of {ALL_STAGES} stages ran, the others are up to date"
    assert sum("Finished in state Cached" in line for line in said) == ALL_STAGES


@pytest.mark.long
def test_after_a_failure_what_runs_is_finished_and_nothing_is_begun(wide: Path, tracking_uri: str, said: list[str]) -> None:
    for name in ("fail-a0", "hold-a1"):
        (wide / name).touch()

    def release() -> None:
        wait_for(lambda: any("Finished in state Failed" in line for line in said))
        (wide / "hold-a1").unlink()

    releasing = threading.Thread(target=release)
    releasing.start()
    state = run(jobs=2)
    releasing.join()
    assert state.is_failed() and state.message == "part@a0: bad luck"
    assert set(started(log(wide))) == {"first", "a0", "a1"}
    assert set(dvc.locked(wide)) == {"first", "part@a1"}


@pytest.mark.long
def test_a_failure_ends_only_what_needs_it_when_all_variants_are_wanted(wide: Path, tracking_uri: str, said: list[str]) -> None:
    (wide / "fail-a0").touch()
    (wide / "dvc.yaml").write_text(
        GRAPH.replace(", b0: b1, b1: b0", "")
        + "  after:\n    cmd: sh part.sh after made/after.txt\n    deps: [made/parts/a0.txt]\n    outs: [made/after.txt]\n"
    )
    state = run(variants=["all"], jobs=2)
    assert state.message == "1 of 5 stages failed: part@a0: bad luck; 2 could not run without what they make; 2 of 5 stages ran"
    assert "flow: last: not run, because there is no finished made/parts" in said
    assert "flow: after: not run, because there is no finished made/parts/a0.txt" in said


def command_line(process: psutil.Process) -> list[str]:
    """Empty, where it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie is one too
        return []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGHUP))])
def test_ctrl_c_ends_all_that_runs_and_the_next_run_goes_on(number: int, wide: Path, tracking_uri: str) -> None:
    """a0 has finished, a1 is held, b0 waits for b1: two run when Ctrl-C comes."""
    from prefect.settings import PREFECT_API_URL

    (wide / "hold-a1").touch()
    command = (sys.executable, "-m", "rlver.flows.cli", "run", "--jobs", "2")
    settings = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value(), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for((wide / "at-b0").exists)
        commands = {child: command_line(child) for child in psutil.Process(process.pid).children(recursive=True)}
        of_stages = [child for child, words in commands.items() if "part.sh" in words]
        assert len({commands[child][2] for child in of_stages}) == 2
        process.send_signal(number)
        _, complaint = process.communicate(timeout=200)
    assert process.returncode == 130 and "run the same command again to go on" in complaint
    assert not psutil.wait_procs(of_stages, timeout=1)[1]
    assert set(dvc.locked(wide)) == {"first", "part@a0"}
    assert set(started(log(wide))) == {"first", "a0", "a1", "b0"}

    (wide / "hold-a1").unlink()
    assert run(jobs=2).message.startswith(f"4 of {ALL_STAGES} stages ran")
    assert sorted(started(log(wide))) == ["a1", "b0", "b1", "last"], "nothing finished is run again"
    assert dvc.changed(wide) == {} and len(dvc.locked(wide)) == ALL_STAGES


def test_the_number_of_jobs_is_checked_before_anything_runs(wide: Path) -> None:
    state = run(jobs=0)
    assert state.is_failed() and "jobs: Input should be greater than or equal to 1" in state.message
    assert not (wide / "log").exists()
