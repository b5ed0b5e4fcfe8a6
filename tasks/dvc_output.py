"""What the lines of `dvc repro` mean: which are only advice, how a stage came out, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from tasks.stages import TEMPORARY_FAILURE

Outcome = Literal["ran", "restored", "unchanged"]
WITHOUT_LOCK = "`git checkout dvc.lock`, or delete it: then DVC takes from its cache what is there and runs the rest again"
AT_WORK = "another DVC process is at work in this folder; wait for it to end"

# What it says after every stage about git and remotes; it is no part of a stage's output.
HINTS = (
    "To track the changes with git",
    "\tgit add",
    "To enable auto staging",
    "\tdvc config core.autostage",
    "Use `dvc push`",
    "Generating lock file",
    "Updating lock file",
)


class StageFailed(RuntimeError):
    """A stage did not succeed. `temporary` says whether the same command may succeed later."""

    def __init__(self, stage: str, reason: str, temporary: bool) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.temporary = stage, reason, temporary


def outcome(said: Sequence[str]) -> Outcome:
    """How a stage that did not fail came out."""
    if any("didn't change, skipping" in line for line in said):
        return "unchanged"
    return "restored" if any("is cached - skipping run" in line for line in said) else "ran"


def failure(stage: str, status: int, said: Sequence[str]) -> StageFailed:
    """DVC folds every failure into its exit status 255; the stage's own status stands in DVC's message."""
    text = "\n".join(said)
    match = re.search(r"^ERROR: .*exited with (-?\d+)", text, re.MULTILINE)
    code = int(match.group(1)) if match else min(status, 1)
    if code < 0 or 128 < code < 160:
        number = -code if code < 0 else code - 128
        return StageFailed(stage, f"ended by signal {number}{' (out of memory?)' if number == 9 else ''}", temporary=number not in (2, 15))
    if "Unable to acquire lock" in text or "is busy, it is being" in text:
        return StageFailed(stage, AT_WORK, temporary=True)
    if damaged := next((line for line in said if "dvc.lock' is invalid" in line or "dvc.lock' validation failed" in line), None):
        return StageFailed(stage, f"{damaged.removeprefix('ERROR: ')} {WITHOUT_LOCK}", temporary=False)
    own = [line for line in said if line.startswith("error: ")]
    dvc = [line for line in said if line.startswith("ERROR: ")]
    other = [line for line in said if not line.startswith(("ERROR: ", "> "))]
    reason = (own or ([] if match else dvc) or other or dvc or [f"exit status {status}"])[-1]
    return StageFailed(stage, reason.removeprefix("error: ").removeprefix("ERROR: "), temporary=code == TEMPORARY_FAILURE)
