"""A training in several processes listens to nobody but this machine, and unpickles nothing that another process sent."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from small_project import REPOSITORY, make_base, make_project, train_arguments

# Runs in every Python that the training starts. PyTorch takes pickle.Unpickler and pickle.loads from here.
NOTES_UNPICKLING = """
import os, pickle, sys

def noted(name):
    frame = sys._getframe(2)
    with open(os.environ["UNPICKLED"], "a") as notes:
        notes.write(f"{name} {frame.f_code.co_filename}\\n")

class Unpickler(pickle.Unpickler):
    def __init__(self, *arguments, **options):
        noted("Unpickler")
        super().__init__(*arguments, **options)

loads = pickle.loads

def noting(*arguments, **options):
    noted("loads")
    return loads(*arguments, **options)

pickle.Unpickler, pickle.loads = Unpickler, noting
"""


def listening(process: subprocess.Popen[bytes]) -> Iterator[tuple[int, str]]:
    """Process and address of every port that a process of the training has open to whoever connects, UDP too."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in family:
        try:
            for connection in one.net_connections(kind="inet"):
                if connection.laddr and connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE):
                    yield one.pid, connection.laddr.ip
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue


@pytest.mark.slow
def test_no_process_of_a_training_listens_outside_this_machine_or_unpickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path, steps=2, save_every=1, evaluate_every=1, rows_per_forward=2, processes=2)
    monkeypatch.chdir(tmp_path)
    make_base(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(NOTES_UNPICKLING)
    notes, path = tmp_path / "unpickled", os.pathsep.join((str(tmp_path), str(REPOSITORY)))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "UNPICKLED": str(notes), "PYTHONPATH": path}
    subprocess.run((sys.executable, "-c", "import pickle; pickle.loads(pickle.dumps(1))"), env=environment, check=True)
    assert notes.read_text() == "loads <string>\n", "unpickling is noted"

    process = subprocess.Popen([sys.executable, "-m", "rlver.tasks.stages.train", *train_arguments("two")], env=environment)
    found: set[tuple[int, str]] = set()
    while process.poll() is None:
        found |= set(listening(process))
        time.sleep(0.05)
    assert process.returncode == 0
    assert len({pid for pid, _ in found}) >= 2, "the two ranks listen to one another"
    elsewhere = {address for _, address in found if not ipaddress.ip_address(address).is_loopback}
    unpickled = [line for line in notes.read_text().splitlines() if "distributed" in line]
    assert (elsewhere, unpickled) == (set(), [])
