"""SIGTERM to every stage but `train`, which has tests of its own: gone within ten seconds with one line, nothing half-written, and right
after a rerun. The stage runs as DVC runs it, and its moment is drawn from the time in which it listens: before that it has only imported,
and after that its outputs are whole.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from whole_project import STAGES, Undisturbed, assert_same, files, outputs, remove_outputs, surroundings, without_times

pytestmark = pytest.mark.slow
ALLOWED_S = 10.0
LINE = "interrupted: what was finished is kept; run the same command again to go on"


@pytest.mark.parametrize("stage", [stage for stage in STAGES if not stage.startswith("train")])
def test_a_stage_that_is_asked_to_leave_is_gone_within_ten_seconds(
    stage: str, undisturbed: Undisturbed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, step, expected = undisturbed.root, undisturbed.steps[stage], undisturbed.outputs[stage]
    said, random = tmp_path / "said", Random(f"SIGTERM to {stage}")
    remove_outputs(root, step)
    process, began = listening(root, step.command, said), time.monotonic()
    assert process.wait() == 0, said.read_text()
    usual_s = time.monotonic() - began
    while True:
        remove_outputs(root, step)
        process = listening(root, step.command, said)
        after_s = random.uniform(0.0, 1.0) * usual_s
        try:
            process.wait(timeout=after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            asked = time.monotonic()
            status, took_s = process.wait(timeout=60), time.monotonic() - asked
            if status not in (0, -signal.SIGTERM):
                break
        assert_same(outputs(root, step), expected, f"{stage}: it was over before, so draw again")
    words = said.read_text()
    assert status == 130 and took_s < ALLOWED_S, (after_s, took_s, words)
    assert words.count(LINE) == 1 and "Traceback" not in words and "error" not in words, words
    for name, content in files(root, step).items():
        assert name.endswith(".safetensors") or without_times(name, content) == expected[name], f"{name} is half-written"
    assert listening(root, step.command, said).wait() == 0, said.read_text()
    assert_same(outputs(root, step), expected, stage)
    with capsys.disabled():
        print(f"\n{stage:22} asked after {after_s:4.1f} of {usual_s:4.1f} s: gone in {took_s:3.1f} s, right result", end="")


def listening(root: Path, command: str, said: Path) -> subprocess.Popen[bytes]:
    """The stage, at the moment at which it has begun to listen to SIGTERM."""
    with said.open("wb") as log:
        process = subprocess.Popen(shlex.split(command), cwd=root, env=surroundings(root), stdout=log, stderr=subprocess.STDOUT)
    while not listens(process):
        assert process.poll() is None, said.read_text()
        time.sleep(0.005)
    return process


def listens(process: subprocess.Popen[bytes]) -> bool:
    """Whether it catches SIGTERM, as the kernel says."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
