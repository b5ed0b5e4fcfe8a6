"""A child's output line by line, and the end of everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from rlver.tasks.runtime import processes


def run(script: str, tmp_path: Path, **options: float) -> tuple[int, list[str]]:
    lines: list[str] = []
    status = processes.run((sys.executable, "-u", "-c", script), tmp_path, os.environ, lines.append, **options)
    return status, lines


def test_stdout_and_stderr_come_line_by_line_in_order(tmp_path: Path) -> None:
    status, lines = run("import sys; print('one'); print('two', file=sys.stderr); print('three ä', end=''); sys.exit(3)", tmp_path)
    assert (status, lines) == (3, ["one", "two", "three ä"])


def test_lines_arrive_while_the_child_runs(tmp_path: Path) -> None:
    """The child says its second line only when its first one has arrived here."""
    arrived: list[str] = []
    script = "import pathlib, time\nprint('now')\nwhile not pathlib.Path('heard').exists(): time.sleep(0.01)\nprint('later')"

    def hear(line: str) -> None:
        arrived.append(line)
        (tmp_path / "heard").touch()

    assert processes.run((sys.executable, "-u", "-c", script), tmp_path, os.environ, hear, limit_s=60) == 0
    assert arrived == ["now", "later"]


def test_a_progress_bar_is_thinned_and_its_last_state_kept(tmp_path: Path) -> None:
    script = "import sys, time\nfor n in range(50): print(f'\\r{n}%', end=''); time.sleep(0.002)\nprint('\\r100%\\nend')"
    status, lines = run(script, tmp_path, progress_every_s=60.0)
    assert status == 0
    assert lines[-2:] == ["100%", "end"]
    assert len(lines) <= 3, "one state at the start, then none for a minute, then the last"


def test_a_line_whose_end_is_torn_between_cr_and_lf_is_a_line(tmp_path: Path) -> None:
    """As from a program that writes CRLF into a pipe: a read may end between the two."""
    chunks = [b"first\r", b"\nsecond\r", b"\nthird\r", b"\n50%\r", b"100%\r"]
    script = f"import os, time\nfor chunk in {chunks!r}:\n    os.write(1, chunk)\n    time.sleep(0.2)"
    status, lines = run(script, tmp_path, progress_every_s=60.0)
    assert (status, lines) == (0, ["first", "second", "third", "50%", "100%"])


def test_an_interrupt_ends_the_child_and_what_it_started(tmp_path: Path) -> None:
    """The stubborn child ignores the interrupt and its own child sleeps: both must be gone."""
    inner = "import signal, subprocess, time; signal.signal(signal.SIGINT, signal.SIG_IGN); subprocess.Popen(['sleep', '61.25']); print('up'); time.sleep(61.25)"
    outer = (
        "import os, sys\nfrom pathlib import Path\nfrom rlver.tasks.runtime import processes\n"
        f"processes.run((sys.executable, '-u', '-c', {inner!r}), Path('.'), os.environ, lambda line: print(line, flush=True), grace_s=0.4)"
    )
    with subprocess.Popen((sys.executable, "-c", outer), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None and caller.stdout.readline() == "up\n"
        started = psutil.Process(caller.pid).children(recursive=True)
        assert len(started) == 2
        caller.send_signal(signal.SIGINT)
        _, complaint = caller.communicate(timeout=20)
    assert "KeyboardInterrupt" in complaint
    _, alive = psutil.wait_procs(started, timeout=5)
    assert not alive


def test_a_stop_from_another_thread_is_an_interrupt_and_a_second_one_kills(tmp_path: Path) -> None:
    """The silent child ignores the interrupt, and the grace is far longer than the test."""
    stop, up = processes.Stop(), threading.Event()
    script = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up'); time.sleep(60)"
    command = (sys.executable, "-u", "-c", script)
    with ThreadPoolExecutor() as pool:
        child = pool.submit(processes.run, command, tmp_path, os.environ, lambda _: up.set(), grace_s=60.0, stop=stop)
        assert up.wait(30)
        stop.asked += 1
        with pytest.raises(TimeoutError):
            child.result(timeout=1.5)
        stop.asked += 1
        assert isinstance(child.exception(timeout=10), KeyboardInterrupt)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_lost_in_a_finaliser_is_noticed() -> None:
    class Closing:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)

    stop = processes.Stop()
    with processes.terminated_like_interrupted(), stop.noticing():
        stop.raise_if_asked()
        made = Closing()
        del made
        with pytest.raises(KeyboardInterrupt):
            stop.raise_if_asked()
        stop.raise_if_asked(times=2)
    assert stop.signals == [signal.SIGTERM]


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """SIGHUP is heard and does nothing; afterwards it is as before."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_closed_interrupts_once(hang_ups: None) -> None:
    stop = processes.Stop()
    with processes.terminated_like_interrupted():
        with pytest.raises(KeyboardInterrupt), stop.noticing():
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)  # what was begun is being ended
    os.kill(os.getpid(), signal.SIGHUP)
    assert stop.signals == [signal.SIGHUP]


def test_a_run_that_another_program_started_notices_that_its_terminal_is_closed() -> None:
    script = (
        "import os, signal, time\nfrom rlver.tasks.runtime import processes\n"
        "with processes.Stop().noticing():\n    os.kill(os.getpid(), signal.SIGHUP)\n    time.sleep(10)"
    )
    ended = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in ended.stderr


def test_under_nohup_a_terminal_may_be_closed(hang_ups: None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with processes.terminated_like_interrupted(), processes.Stop().noticing():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_without_a_signal_handlers_are_as_before(hang_ups: None) -> None:
    before = signal.getsignal(signal.SIGHUP)
    with processes.terminated_like_interrupted():
        assert signal.getsignal(signal.SIGHUP) != before
    assert signal.getsignal(signal.SIGHUP) == before


def test_an_interrupt_within_evaluated_text_leaves_the_status_to_main(tmp_path: Path) -> None:
    """As one in the middle of an import, where a dataclass is made: without `interrupt_is_handled`, `python -m` ends by SIGINT (-2)."""
    (tmp_path / "interrupted_main.py").write_text(
        "import sys\nfrom rlver.tasks.runtime.stage import run_stage\nsys.exit(run_stage(lambda: exec('raise KeyboardInterrupt')))\n"
    )
    (tmp_path / "params.yaml").write_text("{}\n")
    ended = subprocess.run(
        (sys.executable, "-m", "interrupted_main"), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 130 and ended.stderr.startswith("interrupted: "), ended.stderr
