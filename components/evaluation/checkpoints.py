"""Held-out dialogues that a training kept: one file a check, named after the training step. Step 0 is the base before any update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from components.dialogue.transcript import Dialogue
from components.evaluation.transcripts import load_transcripts
from components.files import BadFile

Checkpoints = Mapping[int, Sequence[Dialogue]]  # by training step


def load_checkpoints(folder: Path) -> Checkpoints:
    """The dialogues of <folder>/<step>.jsonl, steps rising; empty without the folder. Raises BadFile for a file named otherwise."""
    files = sorted(folder.glob("*.jsonl"))
    wrong = next((file for file in files if not file.stem.isdecimal()), None)
    if wrong is not None:
        raise BadFile(f"{wrong}: held-out dialogues are kept in <step>.jsonl")
    return {int(file.stem): load_transcripts(file) for file in sorted(files, key=lambda file: int(file.stem))}
