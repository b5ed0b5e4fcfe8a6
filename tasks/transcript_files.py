"""Transcripts as they are named on the command line: a file, or a variant."""

from __future__ import annotations

from pathlib import Path

from components.dialogue.transcript import Dialogue
from components.evaluation.transcripts import load_transcripts
from components.files import BadFile

TRANSCRIPTS = Path("transcripts")


def file_of_variant(named: Path) -> Path | None:
    """transcripts/<variant>.jsonl of a bare variant name; None where a file is named. Raises BadFile for neither."""
    if named.is_file() or len(named.parts) > 1 or named.suffix:
        return None
    found = TRANSCRIPTS / f"{named}.jsonl"
    if not found.is_file():
        raise BadFile(f"{named}: neither a transcript file nor a variant with {found}; `rlver converse` writes transcripts")
    return found


def read_transcripts(named: Path) -> list[Dialogue]:
    """The dialogues of a file or of a variant. Raises BadFile."""
    return load_transcripts(file_of_variant(named) or named)
