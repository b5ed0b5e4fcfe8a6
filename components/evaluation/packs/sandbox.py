"""Running a program that a model wrote: its own process, an empty folder, no environment, bounded time, memory, files and output.

Where the system lets a user make namespaces (`unshare`), the program has no network either, and nothing it starts outlives it. It can
still read and change what the user may: on a machine with anything worth keeping, run the whole benchmark in a container. Nothing is run
unless `benchmark.run_model_code` is true.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SECONDS = 10.0  # wall time of one program; HumanEval's own harness gives 3 on a quiet machine
MEMORY_BYTES = 2 << 30
FILE_BYTES = 10 << 20
PROCESSES = 64
_RUNNER = Path(__file__).parent / "run_program.py"


def ends_well(program: str, seconds: float = SECONDS) -> bool:
    """Whether the program reaches its last line in time. Leaving early, also with status 0, is not the same."""
    last_words = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="rlver-code-") as folder:
        path = Path(folder) / "program.py"
        path.write_text(f"{program}\nprint({last_words!r})\n", encoding="utf-8")
        output = Path(folder) / "output"
        with output.open("wb") as written:
            process = subprocess.Popen(
                [*_shut_in(), sys.executable, "-I", str(_RUNNER), str(path), str(MEMORY_BYTES), str(FILE_BYTES), str(PROCESSES)],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "HOME": folder, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            finally:
                _end(process)
        return status == 0 and output.read_bytes().rstrip().endswith(last_words.encode())


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program and whatever it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@cache
def _shut_in() -> tuple[str, ...]:
    """The words before a command that give it namespaces of its own; none where the system does not let a user do that."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    command = (unshare, "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
    return command if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0 else ()
