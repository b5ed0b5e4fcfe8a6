"""vLLM's own environment, `.venv-vllm` in the project's folder, exactly as cpu.txt or gpu.txt lock it.

A mark is left when all of it is there, so that half an installation is never used.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from rlver.tasks.runtime import environment, processes

Kind = Literal["cpu", "gpu"]
FOLDER = ".venv-vllm"
MARK = "locked-by"
HERE = Path(__file__).parent


class NotSetUp(ValueError):
    """The environment is missing or is not what its lock says now."""


def set_up(root: Path, kind: Kind, say: Callable[[str], None]) -> str:
    """Make the environment anew and return the version of vLLM in it. Raises RuntimeError with pip's last line."""
    venv = root / FOLDER
    shutil.rmtree(venv, ignore_errors=True)
    python = str(_python(venv))
    what = ("--no-deps", "-r", str(_lock("cpu"))) if kind == "cpu" else ("-c", str(_lock("gpu")), "vllm")
    _run((sys.executable, "-m", "venv", str(venv)), root, say)
    _run((python, "-m", "pip", "install", "--no-input", "-q", *what), root, say)
    version = _run((python, "-c", "import vllm; print(vllm.__version__)"), root, say)
    (venv / MARK).write_text(f"{kind} {_digest(kind)}\n", encoding="utf-8")
    return version


def python_of(root: Path) -> tuple[Path, Kind]:
    """vLLM's interpreter and what it is built for. Raises NotSetUp, with what to do."""
    mark = root / FOLDER / MARK
    if not mark.is_file():
        raise NotSetUp(f"{root / FOLDER} is missing or unfinished; make it (3.5 GB on a CPU, some minutes): rlver serve setup")
    written, _, digest = mark.read_text(encoding="utf-8").strip().partition(" ")
    kind: Kind = "gpu" if written == "gpu" else "cpu"
    if digest != _digest(kind):
        raise NotSetUp(f"{root / FOLDER} is of another {_lock(kind).name}; make it anew: rlver serve setup --{kind}")
    return _python(root / FOLDER), kind


def _run(command: tuple[str, ...], root: Path, say: Callable[[str], None]) -> str:
    """Run to the end and return the last line that was said."""
    said = [""]

    def on_line(line: str) -> None:
        said[0] = line or said[0]
        say(line)

    if status := processes.run(command, root, environment.for_child({"PYTHONPATH": ""}), on_line):
        hint = "; pip must be told where PyTorch's CPU wheels are (PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL)" if "+cpu" in said[0] else ""
        raise RuntimeError(f"`{' '.join(command[1:4])}` ended with status {status}: {said[0] or 'no output'}{hint}")
    return said[0]


def _python(venv: Path) -> Path:
    return venv / "bin" / "python"


def _lock(kind: Kind) -> Path:
    return HERE / f"{kind}.txt"


def _digest(kind: Kind) -> str:
    return hashlib.sha256(_lock(kind).read_bytes()).hexdigest()[:12]
