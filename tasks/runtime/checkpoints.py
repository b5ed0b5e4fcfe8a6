"""What lets a training go on after its end came too early: whole checkpoints only, and leave when asked.

A checkpoint that was being written when the process died, that the disk damaged, or that holds code is never resumed: the one before
it is.
"""

from __future__ import annotations

import json
import re
import signal
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import TrainerCallback
from transformers.trainer_pt_utils import safe_globals

from rlver.components.domain.files import BadFile
from rlver.tasks.runtime.processes import ENDING, handling, interrupt

LEAVE_S = 7.0  # what a step may still take after a signal, so that saving and ending fit into ten seconds
STATE = "trainer_state.json"  # what transformers writes last
NEEDED = ("optimizer.pt", "scheduler.pt")  # without them it would begin them anew and say nothing
FRESH = ", with a fresh optimizer (train.checkpoint_optimizer: false): from here on the steps are not those of a run without a stop"
NEVER_READ = "training_args.bin"  # a note of transformers, which itself never reads it again


def latest_intact_checkpoint(folder: Path, with_moments: bool = True) -> tuple[Path | None, list[Path]]:
    """The newest checkpoint in `folder` that can be resumed, and the newer ones that are damaged; one without the optimizer's moments is
    damaged where they are wanted (train.checkpoint_optimizer)."""
    begun = sorted((path.parent for path in folder.glob(f"checkpoint-*/{STATE}")), key=step_of, reverse=True)
    damaged: list[Path] = []
    for checkpoint in begun:
        if is_whole(checkpoint, with_moments):
            return checkpoint, damaged
        damaged.append(checkpoint)
    return None, damaged


def resumed(
    work: Path, curves: Sequence[Any], restore: Callable[[Any], None], with_moments: bool, show: Callable[[str], None]
) -> Path | None:
    """The checkpoint in `work` to go on from, or None for a training that begins.

    `curves` (files of components/training/curves.py) keep the rows up to it; `restore` gets the last row of the first of them.
    """
    checkpoint, damaged = latest_intact_checkpoint(work / "checkpoints", with_moments)
    for one in damaged:
        show(f"{one} is damaged and left out")
    done = step_of(checkpoint) if checkpoint else -1
    folder = curves[0].path.parent
    try:
        for curve in curves:
            curve.keep_until(done)
        if checkpoint:
            restore(curves[0].rows()[-1])
            show(f"going on from step {done} ({checkpoint})" + ("" if with_moments else FRESH))
    except (BadFile, LookupError) as error:
        raise BadFile(f"the curves in {folder} do not belong to {checkpoint} ({error}); delete {work} to start over") from error
    return checkpoint


def step_of(checkpoint: Path) -> int:
    """Also of one that verl wrote."""
    return int(re.split("[-_]", checkpoint.name)[-1])


def is_whole(checkpoint: Path, with_moments: bool) -> bool:
    """Whether every file can be read to its end and holds numbers only; PyTorch's own files carry checksums, safetensors their length."""
    try:
        for file in sorted(checkpoint.rglob("*")):
            if file.suffix == ".safetensors":
                with safe_open(file, framework="np"):
                    pass
            elif file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            elif file.suffix in (".pt", ".pth", ".bin") and file.name != NEVER_READ:
                if zipfile.ZipFile(file).testzip():
                    return False
                with safe_globals():  # type: ignore[no-untyped-call]  # as the trainer reads it: what would run code is refused
                    content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
                if file.name == NEEDED[0] and with_moments and not content["state"]:
                    return False
    except Exception:  # of damaged bytes zipfile also raises NotImplementedError, EOFError and zlib.error, and PyTorch RuntimeError
        return False
    return all((checkpoint / name).is_file() for name in NEEDED)


class StopsOnSignal(TrainerCallback):
    """On SIGINT, SIGTERM or SIGHUP the step under way is finished and saved, and training ends; `asked` says so.

    A step that is not over after LEAVE_S is given up, and so is any step at a second signal: KeyboardInterrupt. The run then goes on from
    an earlier checkpoint. `updates_per_batch`: only after so many updates nothing of a batch is left to do.
    """

    def __init__(self, updates_per_batch: int) -> None:
        self.asked = False
        self._updates_per_batch = updates_per_batch

    @contextmanager
    def listening(self) -> Iterator[None]:
        with handling({**dict.fromkeys(ENDING, self._ask), signal.SIGALRM: interrupt}):
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.asked and state.global_step % self._updates_per_batch == 0:
            signal.setitimer(signal.ITIMER_REAL, 0)  # saving may take its time
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.asked:  # the callbacks that come after this one would hold their last check
            raise KeyboardInterrupt

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        signal.setitimer(signal.ITIMER_REAL, LEAVE_S)
