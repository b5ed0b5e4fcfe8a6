"""Several processes of one stage: where they meet, and that none of them outlives the others or their launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlver.tasks.runtime import ranks
from rlver.tasks.runtime.stage import run_stage

PREAMBLE = """
import os, pathlib, signal, sys, time
from rlver.tasks.runtime import ranks
ranks.end_with_the_launcher()
rank, meeting = int(sys.argv[-2].removeprefix("--rank=")), pathlib.Path(sys.argv[-1].removeprefix("--meeting="))
here = pathlib.Path(sys.argv[1])
(here / f"{rank}.pid").write_text(str(os.getpid()))
others = lambda: all((here / f"{one}.pid").exists() for one in (0, 1))
while not others(): time.sleep(0.01)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(repository_root))))
    return tmp_path


def launch(folder: Path, program: str, grace_s: float = 5.0) -> int:
    (folder / "spoken.py").write_text(PREAMBLE + program)
    return run_stage(lambda: ranks.run(2, "spoken", [str(folder)], grace_s))


def gone(folder: Path) -> bool:
    """Whether both ranks are, after a moment at most."""
    pids = [int((folder / f"{rank}.pid").read_text()) for rank in (0, 1)]
    end = time.monotonic() + 10
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.02)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_every_rank_knows_its_place_and_they_meet_where_only_their_owner_gets_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "eth0")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "RLVER_RUN")
    assert launch(folder, f"""
mode = meeting.parent.stat().st_mode & 0o777
(here / f"{{rank}}.says").write_text(" ".join([*(os.environ[name] for name in {names}), oct(mode), str(meeting)]))
""") == 0  # fmt: skip
    first, second = ((folder / f"{rank}.says").read_text().split() for rank in (0, 1))
    interface = ranks.loopback()
    assert first[:6] == ["0", "0", "2", "2", interface, interface] and second[:6] == ["1", "1", "2", "2", interface, interface]
    assert first[6:] == second[6:], "one run, one meeting"
    assert first[7] == "0o700" and not Path(first[8]).parent.exists(), "nothing of it stays"


def test_the_line_and_the_status_of_the_rank_that_fails_first_are_those_of_all(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = launch(folder, """
if rank == 1:
    print("on the way", file=sys.stderr)
    print("error: the service is away", file=sys.stderr, flush=True)
    (here / "said").touch()
    time.sleep(1)
    sys.exit(75)
while not (here / "said").exists(): time.sleep(0.01)
time.sleep(0.2)
print("error: connection closed by peer", file=sys.stderr, flush=True)
sys.exit(1)
""")  # fmt: skip
    said = capfd.readouterr().err
    assert status == 75 and said.splitlines() == ["on the way", "error: the service is away"]
    assert gone(folder)


@pytest.mark.parametrize(
    ("death", "named"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "process 1 of 2 was ended by SIGKILL (out of memory?), so the others were ended"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "process 1 of 2 was ended by SIGSEGV, so the others were ended"),
        ("os._exit(3)", "process 1 of 2 ended with status 3 (what it said is above), so the others were ended"),
        ("raise LookupError", "process 1 of 2 ended with status 1 (what it said is above), so the others were ended"),
    ],
)
def test_the_death_of_one_ends_the_others_and_is_named(folder: Path, capfd: pytest.CaptureFixture[str], death: str, named: str) -> None:
    """Even of one that does not listen to SIGTERM."""
    status = launch(folder, f"""
if rank == 1:
    while not (here / "deaf").exists(): time.sleep(0.01)
    {death}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(here / "deaf").touch()
time.sleep(60)
""", grace_s=0.5)  # fmt: skip
    assert status == 1 and capfd.readouterr().err.splitlines()[-1] == f"error: {named}"
    assert gone(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_its_launcher(folder: Path, number: signal.Signals) -> None:
    (folder / "spoken.py").write_text(PREAMBLE + "time.sleep(60)")
    program = (
        "import sys; from rlver.tasks.runtime import ranks, stage; sys.exit(stage.run_stage(lambda: ranks.run(2, 'spoken', [sys.argv[1]])))"
    )
    launcher = subprocess.Popen((sys.executable, "-c", program, str(folder)), stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not all((folder / f"{rank}.pid").exists() for rank in (0, 1)):
        assert launcher.poll() is None
        time.sleep(0.02)
    launcher.send_signal(number)  # to it alone, and not to its group
    _, said = launcher.communicate(timeout=30)
    assert gone(folder)
    if number == signal.SIGKILL:
        assert launcher.returncode == -number
    else:
        assert launcher.returncode == 130 and said == "interrupted: what was finished is kept; run the same command again to go on\n"


def test_without_loopback_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ranks.socket, "if_nameindex", lambda: [(2, "eth0")])
    assert run_stage(lambda: ranks.run(2, "spoken", [])) == 1
    assert (
        capsys.readouterr().err
        == "error: several processes need the network interface lo, and there is only eth0: set train.processes to 1\n"
    )
