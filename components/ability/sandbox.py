"""Trying a program that a model wrote: shut in, bounded, and judged by tests that run in another process (trial.py).

Where the system allows namespaces (`unshare`), the program has no network, sees Python and the system's programs only, and nothing it
starts outlives it. Elsewhere it is bounded, but can read and change what the user may, and reach the network. Root is never what it runs
as: it becomes nobody. Nothing is run unless `benchmark.run_model_code` is true.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from rlver.components.ability import jail

SECONDS = 10.0  # wall time of one program; HumanEval's own harness gives 3 on a quiet machine
_GRACE = 10.0  # for ending what is left
_JAIL, _TRIAL = Path(__file__).parent / "jail.py", Path(__file__).parent / "trial.py"
_SPACES = ("--net", "--pid", "--ipc", "--mount", "--fork", "--kill-child")
_PYTHON = tuple(str(path) for path in (sys.base_prefix, sys.prefix, os.path.realpath(sys.base_prefix), os.path.realpath(sys.executable)))
_log = logging.getLogger(__name__)


class SandboxError(RuntimeError):
    """No program can be shut in here; one readable line."""


@dataclass(frozen=True)
class Trial:
    """A program, and tests that use what it defines. The tests can also use what `given` defines; the program has no part in that."""

    program: str
    tests: str = ""
    given: str = ""


def ends_well(trial: Trial | str, seconds: float = SECONDS) -> bool:
    """Whether the program passes its tests in time; a text alone is a program without tests, which need only reach its last line."""
    trial = trial if isinstance(trial, Trial) else Trial(trial)
    parts: dict[str, Mapping[str, str]] = {"program": {"program": trial.program}, "tests": {"given": trial.given, "tests": trial.tests}}
    ours, theirs = socket.socketpair()
    with ours, theirs, _folder() as folder:
        started: list[subprocess.Popen[str]] = []
        try:
            for (part, texts), end in zip(parts.items(), (theirs, ours), strict=True):
                command = (sys.executable, "-I", str(_TRIAL), part, str(end.fileno()))
                started.append(_start(_shut_in(), folder, part, command, seconds, json.dumps(texts), (end.fileno(),)))
                end.close()
            return started[-1].wait(seconds + _GRACE) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            for process in started:
                _end(process)


def make_sure() -> None:
    """Raises SandboxError unless a program can be shut in here."""
    _shut_in()


def _start(
    spaces: Sequence[str], folder: Path, name: str, command: Sequence[str], seconds: float, text: str, descriptors: Sequence[int] = ()
) -> subprocess.Popen[str]:
    """`command` in a jail, with `text` as its standard input: a file that has no name, so that nobody else can open it."""
    walls = ",".join(["root"] * bool(spaces) + ["drop"] * (os.geteuid() == 0))
    place = folder / name
    place.mkdir()
    if os.geteuid() == 0:
        os.chown(place, jail.NOBODY, jail.NOBODY)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as written:
        written.write(text)
        written.seek(0)
        return subprocess.Popen(
            [
                *(*spaces, sys.executable, "-I", str(_JAIL)),
                *(str(place), walls, str(seconds), ":".join((*_PYTHON, str(_TRIAL))), *command),
            ],
            stdin=written,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if not descriptors else subprocess.DEVNULL,
            cwd=place,
            env={"PATH": "/usr/bin:/bin", "HOME": jail.FOLDER if spaces else str(place), "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            pass_fds=descriptors,
            text=True,
        )


def _end(process: subprocess.Popen[str]) -> None:
    """The jail and whatever is in it: without namespaces it is asked, as only it knows what has left the group."""
    for number in (signal.SIGKILL,) if _shut_in() else (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(_GRACE)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that is gone afterwards, whatever was made in it."""
    folder = Path(tempfile.mkdtemp(prefix="rlver-code-"))
    if os.geteuid() == 0:
        folder.chmod(0o711)
    try:
        yield folder
    finally:
        try:
            _remove(folder)
        except OSError as error:
            _log.warning("%s could not be removed (%s): remove it by hand", folder, error)


def _remove(folder: Path) -> None:
    """Every folder in it is moved to the top first: no path gets long, however deep they lie, and nothing recurs."""
    mark, pending = secrets.token_hex(8), [str(folder)]
    moved = (str(folder / f"{mark}-{number}") for number in count())
    while pending:
        current = pending.pop()
        os.chmod(current, 0o700)
        for entry in list(os.scandir(current)):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)  # also to move it: ".." is written
                pending.append(next(moved))
                os.rename(entry.path, pending[-1])
            else:
                os.unlink(entry.path)
        if current != str(folder):
            os.rmdir(current)
    os.rmdir(folder)


@cache
def _shut_in() -> tuple[str, ...]:
    """The words before a command that give it namespaces of its own; none where the system does not let us do that, which is said.

    Each way is tried with a whole jail. Raises SandboxError where none works.
    """
    unshare, said = shutil.which("unshare"), ""
    own_user = () if os.geteuid() == 0 else ("--map-root-user",)
    for spaces in ((unshare, *own_user, *_SPACES), ()) if unshare else ((),):
        with _folder() as folder:
            process = _start(spaces, folder, "nothing", (sys.executable, "-I", "-c", "import ctypes"), SECONDS, "")
            _, said = process.communicate()
        if process.returncode == 0:
            if not spaces:
                _log.warning("programs that the model wrote run with the network and your files: this system gives them no namespaces")
            return spaces
    reason = said.strip().rpartition("\n")[2] or "its Python does not start"
    advice = (
        "as root, Python must lie where nobody may read it; else run as another user" if os.geteuid() == 0 else "see docs/evaluation.md"
    )
    raise SandboxError(f"what the model wrote cannot be shut in here ({reason}): {advice}")
